#pragma once
// How often the run dies, as a belief: a mixture of Gamma posteriors, one for each point since which the rate
// may have been what it is now. A step change is followed within a few failures, because what lies before it
// loses its say; as long as nothing changes everything counts. Bayesian online change-point detection with a
// Gamma-exponential model (Adams and MacKay, 2007).
//
// Only failures that lost work are told to it: a preemption whose save committed is just time that passed.
#include <array>
#include <cstddef>

namespace unbroken {

/// What is believed before the first failure. Per 1,000 node-days: 2.3 optimistic, 3.8, 6.5 pessimistic.
struct FailurePrior {
  double per_1000_node_days = 3.8;  ///< 0: none are expected, until one happens
  double weight = 2;                ///< in failures; > 0
  /// One that nobody gave says little of what else kills this job: so much time of `nodes` nodes, at most
  /// two failures.
  static FailurePrior assumed(double nodes);
};

/// Units: node-days of the whole run.   Threads: the caller's.
class FailureRate {
 public:
  explicit FailureRate(const FailurePrior& prior = {});

  /// Time passed without a failure that lost work.
  void on_alive(double node_days) { pending_ += node_days; }
  /// The time since the last failure ended in another.
  void on_failure();

  /// Mean of the belief, failures per node-day; 0 only where none are expected and none happened.
  double per_node_day() const;
  /// The rate below which `share` of the belief lies; `share` in (0, 1).
  /// With `more_failures` as if so many more had just happened.
  double quantile_per_node_day(double share, double more_failures = 0) const;
  /// 95 % between, by Garwood's rule for counts with the prior as data: the lower end of the belief, and the
  /// upper end of what it would be after one more failure. `low` is 0 while it would be less than any rate.
  struct Range {
    double low, high;
  };
  Range ci95_per_node_day() const;

  double failures() const { return failures_; }
  double node_days() const { return node_days_ + pending_; }
  const FailurePrior& prior() const { return prior_; }
  double prior_node_days() const { return prior_.weight / per_node_day_expected(); }

 private:
  /// The rate has been one since a point in the past: failures and node-days from there on, prior included.
  struct Regime {
    double log_weight;
    double shape;
    double node_days;
  };
  static constexpr std::size_t kRegimes = 64;

  double per_node_day_expected() const;
  /// What the rate may become from `rate` on: some times as often, or as rare.
  std::array<Regime, 2> after_change(double rate) const;
  void add(const Regime& regime);
  double mean_rate(double pending) const;
  bool expects_none() const { return prior_.per_1000_node_days <= 0 && failures_ == 0; }
  /// Calls `use(weight, shape, node_days)` for each part of the belief now; weights sum to 1.
  template <class Use>
  void for_each_part(Use use) const;

  FailurePrior prior_;
  std::array<Regime, kRegimes> regimes_;
  std::size_t count_ = 0;
  double pending_ = 0;
  double failures_ = 0;
  double node_days_ = 0;
};

/// The regularised lower incomplete gamma function P(a, x), the share of a Gamma(a, 1) below x.
/// Domain: a > 0, x >= 0.   Source: series and continued fraction, Abramowitz and Stegun 6.5.29 and 6.5.31.
double gamma_p(double a, double x);

}  // namespace unbroken
