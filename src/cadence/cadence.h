#pragma once
// `every="auto"`: saves at the optimum of what a save costs and how often the run dies, both measured as it
// goes.
//
// 1. create() with the lives before this one: failures that lost work, and the time between; remember() with
//    what their saves cost.
// 2. start(), then should_save() after each completed step: two comparisons; it plans nothing.
// 3. on_save(), on_cost() with each save: the plan is made anew. An interval changes only when the new one is
//    more than a tenth away (hysteresis): the optimum is so flat that a tenth costs less than a hundredth of
//    the waste.
// 4. on_failed() with one that came to nothing: the next falls due soon. on_kept() and watch() follow how
// much
//    would be lost now, for a promise.
//
// A run whose schedule is given (every N steps, every so long) is followed in the same way, so that the
// optimum can be told beside it; then should_save() is not asked.
//
// Pure: time is passed in, in seconds of one monotonic clock. One rank decides; the others are told the step
// that next_save_step() names.
#include <cstdint>
#include <limits>
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
  /// The user's own expectation for the whole job (`mtti=`), weight 2 failures. Otherwise 3.8 failures per
  /// 1,000 node-days that count as 6 hours of watching, and no interval above max(1 h, 50 stalls) unless
  /// `every_max` or `rpo` say otherwise.
  std::optional<double> mtti_s = {};
  double rpo_s = std::numeric_limits<double>::infinity();        ///< `rpo=`: never lose more
  double every_min_s = 0;                                        ///< `every_min=`
  double every_max_s = std::numeric_limits<double>::infinity();  ///< `every_max=`
  std::uint64_t keep_every = 0;   ///< steps that are saved in any case; 0 = none
  std::uint32_t in_flight = 1;    ///< saves that may persist at once
  double recovery_s = 60;         ///< until one was measured
  double given_s = 0;             ///< above 0: the interval is given and only compared
  std::uint64_t given_steps = 0;  ///< the same, in steps
};

/// One earlier life of the run, oldest first in a history.
struct PastLife {
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
  double interval_s = 0;  ///< at least a step
  BoundBy bound_by = BoundBy::no_failures;
  double exact_s = 0;  ///< infinite where no failures are expected
  double floor_s = 0;
  double stall_s = 0;
  double persist_s = 0;
  double recovery_s = 0;
  std::uint32_t recoveries = 0;  ///< measured; 0: recovery_s is assumed
  double mtti_s = 0;             ///< infinite where no failures are expected
  double efficiency = 1;
  double failures = 0;   ///< that lost work, in the lives known
  double node_days = 0;  ///< in the lives known
  double prior_per_1000_node_days = 0;
  double prior_node_days = 0;  ///< the prior counts as so much watching; 0: not known
  std::uint32_t saves = 0;     ///< measured
  /// What was done to the optimum, for people: it was halved, capped, or is near enough; may be empty.
  std::string note;
  /// Why `rpo` cannot be kept; or that it was not, until a save keeps it again. Empty while all is well.
  std::string broken_promise;
  std::uint32_t breaks = 0;  ///< how often in this life more than `rpo` would have been lost
  double exposed_s = 0;      ///< the most that would have been lost then
};

class Cadence {
 public:
  /// Errors: bad_argument (min above max, nothing between rpo and min, a value that is negative or not a
  /// number).
  static Result<Cadence> create(const CadenceOptions& options, std::span<const PastLife> history = {});

  /// Before start(): what saves and ways back of earlier lives took, oldest first, and for a promise how long
  /// a step took.
  void remember(std::span<const SaveCost> costs, std::span<const double> recoveries_s, double step_s = 0);
  /// The life began at `began_s`, and its first step begins at `now_s` with `step` completed ones.
  void start(std::uint64_t step, double began_s, double now_s);
  /// A completed step; learns how long one takes.
  void on_step(std::uint64_t step, double now_s);
  /// True when the state after `step` completed steps should be saved. At most 1 us. Nothing falls due while
  /// as many saves persist as may: the interval has its floor there, and nothing is skipped.
  bool should_save(std::uint64_t step, double now_s, std::uint32_t persisting = 0);
  /// A save of any kind held up the loop until `now_s`.
  void on_save(double now_s);
  /// A save is committed and this was its cost.
  void on_cost(const SaveCost& cost, double now_s);
  /// Before on_cost(): the state of `snapped_s` can be resumed from since `durable_s`.
  void on_kept(double snapped_s, double durable_s);
  /// A save failed. The next falls due after as long as one takes, after twice that if it fails too, and so
  /// on up to the interval, or to a tenth of what is promised: storage that is back is soon made use of.
  void on_failed(double now_s);
  /// At a boundary, after all that is known of saves was told: would more be lost now than was promised?
  void watch(double now_s);
  /// What the way back took, from the end of the last life to the first step.
  void on_recovery(double seconds);

  const CadencePlan& plan() const { return plan_; }
  double step_s() const { return step_s_; }  ///< how long a step takes without saves; 0 before the first
  /// mtti with 95 % of the belief between; {infinity, infinity} where no failures are expected.
  struct Range {
    double low_s, high_s;
  };
  Range mtti_ci95_s() const;
  /// The step at whose end the next save falls due at the present speed; for a group to agree on. At least
  /// step + 1.
  std::uint64_t next_save_step(std::uint64_t step, double now_s) const;
  /// True once after the interval changed by half or more since the last time, changed by a tenth or more to
  /// meet the floor, or a promise broke: time to say so.
  bool take_news();

 private:
  static constexpr double kNever_s = std::numeric_limits<double>::infinity();
  Cadence(const CadenceOptions& options, const FailurePrior& prior) : options_(options), rate_(prior) {}
  void replan(double now_s);
  CadencePlan measured() const;
  void choose(CadencePlan& plan);
  void limit(CadencePlan& plan, Choice& choice) const;
  bool has_given_prior() const { return options_.mtti_s && *options_.mtti_s < kNever_s; }
  void keep_near(CadencePlan& next) const;
  double given_interval_s() const;
  void set_interval(CadencePlan& plan) const;
  double mtti_s() const;
  double due_s() const;
  void note_exposed(double exposed_s);

  CadenceOptions options_;
  FailureRate rate_;
  RecentMean stall_s_;
  RecentMean persist_s_;
  RecentMean recovery_s_;
  CadencePlan plan_;
  double alive_until_s_ = 0;   ///< time of this life that the rate was told of
  double work_s_ = 0;          ///< planned between two saves; those of the plan are whole steps at least
  double last_s_ = 0;          ///< when the stretch of work since the last save began
  double kept_s_ = 0;          ///< the moment whose state would be resumed from
  double retry_s_ = kNever_s;  ///< after a failed save
  double pause_s_ = 0;         ///< before that retry; 0: the last save did not fail
  std::uint32_t failed_ = 0;   ///< saves in a row
  bool is_exposed_ = false;    ///< more than was promised would be lost now
  std::string breach_;         ///< the same for people, until a save keeps the promise again
  double seen_s_ = 0;          ///< the last boundary
  std::uint64_t seen_step_ = 0;
  double step_s_ = 0;  ///< smoothed; 0 before the second boundary
  double one_s_ = 0;   ///< the last step
  double slow_s_ = 0;  ///< the shorter one of the last two: one that is slow alone breaks no promise
  /// Work that a promise allows between two saves; infinite without one.
  double promised_s_ = kNever_s;
  unsigned short_lives_ = 0;  ///< in a row, that ended before their second save
  double shortest_life_s_ = std::numeric_limits<double>::infinity();
  std::uint32_t saves_ = 0;  ///< of this life
  double said_s_ = 0;        ///< work between two saves, when take_news() last told of it
  CadencePlan said_;         ///< the one that take_news() told of last
  bool has_news_ = false;
};

}  // namespace unbroken
