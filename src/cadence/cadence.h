#pragma once
// `every="auto"`: saves at the optimum of what a save costs and how often the run dies, both measured as it
// goes.
//
// 1. start() with the history of earlier lives on the storage: failures that lost work, and the time between.
// 2. should_save() after each completed step: two comparisons; it plans nothing.
// 3. on_save(), on_cost() with each save: the plan is made anew. An interval changes only when the new one is
// more
//    than a tenth away (hysteresis): the optimum is so flat that a tenth costs less than a hundredth of the
//    waste.
//
// Pure: time is passed in, in seconds of one monotonic clock. One rank decides; the others are told the step
// that next_save_step() names.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "cadence/choose.h"
#include "cadence/failure_rate.h"
#include "cadence/recent_mean.h"

namespace unbroken {

struct CadenceOptions {
  double nodes = 1;
  /// The user's own expectation for the whole job (`mtti=`), weight 2 failures; otherwise 3.8 failures per
  /// 1,000 node-days.
  std::optional<double> mtti_s = {};
  double rpo_s = std::numeric_limits<double>::infinity();        ///< `rpo=`: never lose more
  double every_min_s = 0;                                        ///< `every_min=`
  double every_max_s = std::numeric_limits<double>::infinity();  ///< `every_max=`
  std::uint64_t keep_every = 0;  ///< steps that are saved in any case; 0 = none
  std::uint32_t in_flight = 1;   ///< saves that may persist at once
  double recovery_s = 60;        ///< until one was measured
};

/// One earlier life of the run, oldest first in a history.
struct Life {
  double seconds = 0;
  double nodes = 1;
  std::uint32_t saves = 0;    ///< that committed
  bool has_lost_work = true;  ///< false: finished, or preempted with its last step saved
};

/// What one save cost.
struct SaveCost {
  double stall_s = 0;    ///< all the time for which the loop waited
  double persist_s = 0;  ///< from the end of the stall until it was committed
};

/// The interval and everything that it follows from.
struct CadencePlan {
  double interval_s = 0;
  BoundBy bound_by = BoundBy::no_failures;
  double exact_s = 0;  ///< infinite where no failures are expected
  double floor_s = 0;
  double stall_s = 0;
  double persist_s = 0;
  double recovery_s = 0;
  double mtti_s = 0;  ///< infinite where no failures are expected
  double efficiency = 1;
  double failures = 0;   ///< that lost work, in all lives
  double node_days = 0;  ///< in all lives
  double prior_per_1000_node_days = 0;
  std::uint32_t saves = 0;  ///< measured
  /// Why `rpo` cannot be kept; empty while it can.
  std::string broken_promise;
};

class Cadence {
 public:
  /// Errors: bad_argument (min above max, nothing between rpo and min, a value that is negative or not a
  /// number).
  static Result<Cadence> create(const CadenceOptions& options, std::span<const Life> history = {});

  /// The life begins, or its restore ended, with `step` completed steps.
  void start(std::uint64_t step, double now_s);
  /// True when the state after `step` completed steps should be saved. At most 1 us.
  bool should_save(std::uint64_t step, double now_s);
  /// A save of any kind began, or one that was due was skipped because another was in flight.
  void on_save(double now_s);
  /// A save is committed and this was its cost.
  void on_cost(const SaveCost& cost, double now_s);
  /// What the way back took, from the end of the last life to the first step.
  void on_recovery(double seconds);

  const CadencePlan& plan() const { return plan_; }
  /// mtti with 95 % of the belief between; {infinity, infinity} where no failures are expected.
  struct Range {
    double low_s, high_s;
  };
  Range mtti_ci95_s() const;
  /// The step at whose end the next save falls due at the present speed; for a group to agree on. At least
  /// step + 1.
  std::uint64_t next_save_step(std::uint64_t step, double now_s) const;
  /// True once after the interval changed by more than a tenth: time to say so.
  bool take_news();

 private:
  Cadence(const CadenceOptions& options, const FailurePrior& prior) : options_(options), rate_(prior) {}
  void replan(double now_s);
  double mtti_s() const;
  double due_s() const;

  CadenceOptions options_;
  FailureRate rate_;
  RecentMean stall_s_;
  RecentMean persist_s_;
  RecentMean recovery_s_;
  CadencePlan plan_;
  double alive_until_s_ = 0;  ///< time of this life that the rate was told of
  double last_s_ = 0;         ///< when a save last fell due
  double seen_s_ = 0;         ///< the last boundary
  std::uint64_t seen_step_ = 0;
  double step_s_ = 0;     ///< smoothed; 0 before the second boundary
  double shortened_ = 1;  ///< factor for lives that ended before their second save
  double shortest_life_s_ = std::numeric_limits<double>::infinity();
  bool has_news_ = false;
};

}  // namespace unbroken
