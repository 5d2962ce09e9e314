#pragma once
// When a save is due: `every=` of a run. A Schedule is told what happened (a save began or was skipped, what
// it cost) and answers one question per completed step; time is passed in, nothing waits.
//
// - steps:    at the multiples of N, whatever else was saved between.
// - duration: once that long has passed since the last save fell due.
// - auto:     so that the time a save holds up the loop stays under 1 % of all time, at least every 30
// minutes.
//
// A save that falls due while one is in flight is the caller's to skip: it says so with `on_save`, and the
// next one falls due an interval later. The first completed step of a life is saved by the caller, always.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cadence/recent_mean.h"

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
  /// What a finished save cost: all the time for which the loop waited, and the time until it was durable.
  void on_cost(double exposed_s, double durable_s);

  Kind kind() const { return kind_; }
  /// Seconds from one save to the next; 0 for steps.
  double interval_s() const { return interval_s_; }
  /// "every 50 steps", "every 10m 0s", "auto: every 2m 0s (a save costs 1.2s)".
  std::string text() const;

  static constexpr double kShare = 0.01;         ///< of the time, at most, for automatic saves
  static constexpr double kLongest_s = 30 * 60;  ///< between automatic saves

 private:
  Schedule(Kind kind, std::uint64_t steps, double interval_s)
      : kind_(kind), steps_(steps), interval_s_(kind == Kind::automatic ? kLongest_s : interval_s) {}

  Kind kind_;
  std::uint64_t steps_;
  double interval_s_;
  double last_s_ = 0;
  RecentMean exposed_s_;
  RecentMean durable_s_;
};

}  // namespace unbroken
