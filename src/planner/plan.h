#pragma once
// What to expect of a job before it runs: the interval of each tier, where the time goes, money, storage, and
// what to improve first. Closed forms only (cadence/formulas.h, cadence/tiers.h); the simulator beside it
// checks them.
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cadence/choose.h"
#include "cadence/formulas.h"
#include "cadence/tiers.h"
#include "planner/inputs.h"

namespace unbroken {

/// How often each tier is saved; one entry, unnamed, for a job without tiers. Bottom up.
struct TierPlan {
  std::string name;
  TierTimes times;
  double recovers = 1;  ///< cumulative share of failures
  TierInterval interval;
};

/// When to save; what the simulator runs.
struct SavePlan {
  double interval_s = 0;  ///< tau
  /// What was given, else 0: near the floor and below it some of those saves find no room and are skipped.
  double asked_s = 0;
  BoundBy bound_by = BoundBy::optimum;
  double young_s = 0, daly_s = 0, exact_s = 0, floor_s = 0;
  double period_s = 0;   ///< with tiers a mean
  double longest_s = 0;  ///< period; without tiers
  JobTimes times;        ///< of a job without tiers
  std::vector<TierPlan> tiers;
  bool is_notice_used = false;  ///< the emergency save fits the notice

  /// Share of all time that becomes work which is never done again, were there room for any number of saves.
  double efficiency_at(double tau_s) const;
  Waste waste_at(double tau_s) const;
  /// Of what is done.
  double efficiency() const;
  Waste waste() const;
  bool has_tiers() const { return tiers.size() > 1; }
  /// Worst and mean of what a failure loses, down to the newest state that can be resumed from. The mean is
  /// over those with a notice too, which lose nothing.
  double max_lost_s() const;
  double max_lost_of(const TierPlan& tier) const;  ///< of a failure that sends back to this one, in use
  double mean_lost_s() const;
  double share_of(const TierPlan& tier) const;   ///< of the failures go back to it: those of dropped ones too
  double mean_stall_s() const;                   ///< over the saves, each by the safest tier that is due
  double mean_period_s() const;                  ///< with tiers
  double period_of(const TierPlan& tier) const;  ///< between two saves of this one
  Ettr ettr() const;

 private:
  /// Of each tier in use, weighted with the failures that go back to it.
  template <class Of>
  double mean_over_failures(Of of) const;
  TierJob tier_job(double tau_s, std::vector<TierTimes>& times, std::vector<TierInterval>& plan) const;
};

struct NoticeFit {
  std::string name;
  double window_s = 0;
  double needs_s = 0;
  bool fits = false;
};

struct PlanWarning {
  std::string code;  ///< not-viable one-writer floor ettr-domain rpo young-beyond-mtti prior-assumed notice
                     ///< preset-mtti last-tier
  std::string text;
};

struct Sensitivity {
  std::string parameter;
  double factor = 1;
  double efficiency_gain = 0;
};

struct Plan {
  JobInputs job;
  SavePlan saves;
  double failures_per_1000_node_days = 0;
  double efficiency = 0;
  double efficiency_young = 0, efficiency_daly = 0, efficiency_exact = 0, efficiency_first_order = 0;
  Ettr ettr;
  bool is_viable = false;
  Waste waste;
  double failures = 0;  ///< expected over the days
  double p_none = 0;    ///< of no failure in all the days
  double lost_gpu_hours = 0;
  std::optional<double> lost_usd = {};
  std::optional<double> storage_bytes = {};  ///< kept checkpoints and those in flight
  std::optional<double> storage_usd_per_month = {};
  std::vector<NoticeFit> notices;
  std::vector<PlanWarning> warnings;
  std::vector<Sensitivity> sensitivity;  ///< best first
};

/// Errors: bad_argument (a promise that cannot be kept, naming both figures).
Result<SavePlan> plan_saves(const JobInputs& job);
Result<Plan> make_plan(const JobInputs& job);

/// Where an interval was asked for that the storage does not follow.
std::optional<PlanWarning> below_floor(const SavePlan& saves);

/// "1 node", "16 nodes"
std::string counted(double count, std::string_view what);
Json to_json(const Plan& plan);
/// For people: what, why, what it costs, what to improve.
std::string plan_text(const Plan& plan);

}  // namespace unbroken
