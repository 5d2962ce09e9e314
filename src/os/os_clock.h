#pragma once
// Time and chance of this machine.
#include "world/clock.h"

namespace unbroken {

/// CLOCK_MONOTONIC, which neither jumps nor runs while the machine sleeps.
class OsClock final : public Clock {
 public:
  Instant now() const override;
  std::int64_t wall_unix_ms() const override;
};

/// getrandom(2), afresh on every call: two processes, or a process and its fork, never draw the same.
class OsRandom final : public Random {
 public:
  std::uint64_t next() override;
};

}  // namespace unbroken
