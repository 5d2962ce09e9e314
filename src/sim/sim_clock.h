#pragma once
// A process's view of virtual time: monotonic time is the scheduler's, shared; wall time may be off by years.
#include <cstdint>

#include "sim/scheduler.h"
#include "world/clock.h"

namespace unbroken {

class SimClock final : public Clock {
 public:
  /// 2026-01-01T00:00:00Z.
  static constexpr std::int64_t kStartUnixMs = 1'767'225'600'000;
  explicit SimClock(const Scheduler& scheduler) : scheduler_(scheduler) {}
  Instant now() const override { return scheduler_.now(); }
  std::int64_t wall_unix_ms() const override {
    return kStartUnixMs + wall_offset_ms + scheduler_.now().since_boot / std::chrono::milliseconds(1);
  }
  std::int64_t wall_offset_ms = 0;

 private:
  const Scheduler& scheduler_;
};

}  // namespace unbroken
