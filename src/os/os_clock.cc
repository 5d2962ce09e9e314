#include "os/os_clock.h"

#include <sys/random.h>

#include <cerrno>
#include <ctime>

#include "base/check.h"

namespace unbroken {
namespace {

timespec read_clock(clockid_t which) {
  timespec at{};
  UNBROKEN_CHECK(::clock_gettime(which, &at) == 0);
  return at;
}

}  // namespace

Instant OsClock::now() const {
  const timespec at = read_clock(CLOCK_MONOTONIC);
  return {std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec)};
}

std::int64_t OsClock::wall_unix_ms() const {
  const timespec at = read_clock(CLOCK_REALTIME);
  return std::int64_t{at.tv_sec} * 1000 + at.tv_nsec / 1'000'000;
}

std::uint64_t OsRandom::next() {
  std::uint64_t drawn = 0;
  ssize_t count = 0;
  do {
    count = ::getrandom(&drawn, sizeof(drawn), 0);
  } while (count < 0 && errno == EINTR);
  // Fewer than 256 bytes are never cut short (getrandom(2)).
  UNBROKEN_CHECK(count == static_cast<ssize_t>(sizeof(drawn)));
  return drawn;
}

}  // namespace unbroken
