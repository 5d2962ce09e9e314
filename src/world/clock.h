#pragma once
// Time and chance. Only monotonic time decides anything; wall time is for people.
#include <chrono>
#include <compare>
#include <cstdint>
#include <stop_token>

#include "base/result.h"

namespace unbroken {

using Duration = std::chrono::nanoseconds;

/// A point in monotonic time of one boot.
struct Instant {
  Duration since_boot{};
  friend auto operator<=>(const Instant&, const Instant&) = default;
  friend Instant operator+(Instant at, Duration d) { return {at.since_boot + d}; }
  friend Duration operator-(Instant a, Instant b) { return a.since_boot - b.since_boot; }
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
  /// For people ("created"), never for order or age.
  virtual std::int64_t wall_unix_ms() const = 0;
};

/// Every call that can wait takes one: it returns `late` or `stopped`, never hangs.
struct Deadline {
  Instant at;
  std::stop_token stop;
};

inline double seconds_of(Duration d) {
  return std::chrono::duration<double>(d).count();
}

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;
};

}  // namespace unbroken
