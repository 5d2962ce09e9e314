#pragma once
// What `every=` of a run says. Where it gives an interval, a Schedule is told when a save began or was
// skipped and answers one question per completed step; time is passed in, nothing waits.
//
// - steps:    at the multiples of N, whatever else was saved between.
// - duration: once that long has passed since the last save fell due.
// - auto:     never by itself: cadence.h decides.
//
// A save that falls due while one is in flight is the caller's to skip: it says so with `on_save`, and the
// next one falls due an interval later. The first completed step of a life is saved by the caller, always.
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace unbroken {

class Schedule {
 public:
  enum class Kind : std::uint8_t { automatic, steps, duration };

  /// "auto", "50" (steps), "10min". Errors: bad_argument (0, negative, no such unit).
  static Result<Schedule> parse(std::string_view text);
  static Result<Schedule> every_steps(std::uint64_t steps);
  static Result<Schedule> every_seconds(double seconds);
  static Schedule automatic() { return Schedule(Kind::automatic, 0, 0); }

  /// A life begins (or a restore ended): intervals count from here.
  void start(double now_s) { last_s_ = now_s; }
  /// True when the state after `step` completed steps should be saved. Monotonic seconds; at most 1 us.
  bool is_due(std::uint64_t step, double now_s) const;
  /// A save of any kind began at `now_s`, or one that was due was skipped.
  void on_save(double now_s) { last_s_ = now_s; }
  Kind kind() const { return kind_; }
  /// Seconds from one save to the next; 0 where none are given.
  double interval_s() const { return interval_s_; }
  std::uint64_t steps() const { return steps_; }  ///< 0 where none are given

 private:
  Schedule(Kind kind, std::uint64_t steps, double interval_s)
      : kind_(kind), steps_(steps), interval_s_(interval_s) {}

  Kind kind_;
  std::uint64_t steps_;
  double interval_s_;
  double last_s_ = 0;
};

}  // namespace unbroken
