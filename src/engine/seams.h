#pragma once
// What the engine stands on. Composition roots fill it with os/ or sim/ and outlive the engine with it.
#include <cstdint>
#include <string_view>

#include "base/ids.h"
#include "journal/history.h"
#include "world/clock.h"
#include "world/executor.h"
#include "world/process.h"
#include "world/store.h"

namespace unbroken {

/// A pin whose heartbeat did not change for so long, by the collector's own monotonic clock, is void.
inline constexpr Duration kPinLasts = std::chrono::minutes(5);

struct Seams {
  Clock& clock;
  Random& random;
  Executor& executor;
  Store& store;
  Process& process;
  std::uint64_t fold_every = kFoldEvery;  ///< for tests: a SUMMARY is due more often
  Duration pin_lasts = kPinLasts;

  Nonce draw() const { return Nonce{random.next()}; }
  Deadline within(Duration limit, std::stop_token stop = {}) const {
    return {clock.now() + limit, std::move(stop)};
  }
  /// Asked before every piece of an object, so that no call runs on for the length of it. Errors: late,
  /// stopped.
  Result<> check_piece(std::string_view doing, std::string_view key, const Deadline& by) const;
};

}  // namespace unbroken
