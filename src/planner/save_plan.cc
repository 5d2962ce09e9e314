// When to save: the interval of each tier, held by the storage and by what was promised.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "planner/plan.h"

namespace unbroken {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Tiers with the share of failures that are theirs: what they recover and no cheaper one does.
std::vector<TierPlan> tiers_of(const JobInputs& job) {
  std::vector<TierPlan> out;
  double below = 0;
  for (const TierInput& tier : job.tiers) {
    TierPlan plan;
    plan.name = tier.name;
    plan.times = {tier.stall_s, tier.persist_s, tier.recovery_s, std::max(tier.recovers - below, 0.0)};
    plan.recovers = below = std::max(below, tier.recovers);
    out.push_back(plan);
  }
  if (out.empty()) out.push_back({"", {job.stall_s, job.persist_s, job.recovery_s, 1}, 1, {}});
  return out;
}

/// The tiers in use, bottom up.
std::vector<TierPlan*> used(std::vector<TierPlan>& tiers) {
  std::vector<TierPlan*> out;
  for (TierPlan& tier : tiers)
    if (tier.interval.is_used) out.push_back(&tier);
  return out;
}

/// A tier whose write outlasts its turn is given it more rarely; one that a promise needs sooner, more often.
void fit_turns(const std::vector<TierPlan*>& tiers, double period_s, const JobInputs& job) {
  for (std::size_t i = 1; i < tiers.size(); ++i) {
    const double below = static_cast<double>(tiers[i - 1]->interval.every);
    double times = std::round(static_cast<double>(tiers[i]->interval.every) / below);
    const double persist_s = tiers[i]->times.persist_s;
    times = std::max(times, std::ceil(persist_s / job.in_flight / (period_s * below) - 1e-9));
    if (std::isfinite(job.rpo_s))
      times = std::min(times, std::floor((job.rpo_s - persist_s) / (period_s * below) + 1e-9));
    times = std::clamp(times, 1.0, 1e6);
    tiers[i]->interval.every = static_cast<std::uint64_t>(below * times);
  }
}

}  // namespace

TierJob SavePlan::tier_job(double tau_s, std::vector<TierTimes>& tier_times,
                           std::vector<TierInterval>& intervals) const {
  for (const TierPlan& tier : tiers) {
    tier_times.push_back(tier.times);
    intervals.push_back(tier.interval);
  }
  return {tier_times, intervals, tau_s, mtti_without_notice_s(times.mtti_s, times.notice_share)};
}

/// What is left after the recoveries of interruptions that lost nothing else: to first order, for tiers.
double SavePlan::kept_by_notice() const {
  double recovery_s = times.notice_cost_s;
  for (const TierPlan& tier : tiers) recovery_s += tier.times.share * tier.times.recovery_s;
  return std::exp(-times.notice_share * recovery_s / times.mtti_s);
}

double SavePlan::efficiency_at(double tau_s) const {
  if (!has_tiers()) return unbroken::efficiency(tau_s, times);
  std::vector<TierTimes> tier_times;
  std::vector<TierInterval> intervals;
  return tier_efficiency(tier_job(tau_s, tier_times, intervals)) * kept_by_notice();
}

Waste SavePlan::waste_at(double tau_s) const {
  if (!has_tiers()) return waste_of(tau_s, times);
  std::vector<TierTimes> tier_times;
  std::vector<TierInterval> intervals;
  const double kept = kept_by_notice();
  Waste out = tier_waste(tier_job(tau_s, tier_times, intervals));
  for (double* part : {&out.stall, &out.lost_work, &out.recovery, &out.persist_lag}) *part *= kept;
  out.recovery += 1 - kept;
  return out;
}

double SavePlan::max_lost_s() const {
  double most = 0;
  for (const TierPlan& tier : tiers)
    if (tier.interval.is_used)
      most = std::max(most, unbroken::max_lost_s(period_s * static_cast<double>(tier.interval.every),
                                                 tier.times.persist_s));
  return most;
}

double SavePlan::mean_lost_s() const {
  double sum = 0, before = 0, share = 0;
  for (const TierPlan& tier : tiers) {
    share += tier.times.share;
    if (!tier.interval.is_used) continue;
    sum += (share - before) *
           unbroken::mean_lost_s(period_s * static_cast<double>(tier.interval.every), tier.times.persist_s);
    before = share;
  }
  return sum;
}

Result<SavePlan> plan_saves(const JobInputs& job) {
  SavePlan out;
  out.tiers = tiers_of(job);
  out.is_notice_used =
      job.notice_share > 0 && (!job.notice_s || fits_notice(job.notice_needs_s(), *job.notice_s));
  const double share = out.is_notice_used ? job.notice_share : 0;
  const double mtti_s = mtti_without_notice_s(job.mtti_s, share);
  const bool is_finite = std::isfinite(job.mtti_s);

  std::vector<TierTimes> tier_times;
  for (const TierPlan& tier : out.tiers) tier_times.push_back(tier.times);
  const auto intervals = tier_intervals(tier_times, is_finite ? mtti_s : 1e18);
  for (std::size_t i = 0; i < out.tiers.size(); ++i) out.tiers[i].interval = intervals[i];
  const std::vector<TierPlan*> in_use = used(out.tiers);
  TierPlan& first = *in_use.front();

  out.times = {.stall_s = first.times.stall_s,
               .mtti_s = job.mtti_s,
               .recovery_s = first.times.recovery_s,
               .persist_s = first.times.persist_s,
               .slowdown = job.slowdown,
               .notice_share = share,
               .notice_cost_s = first.times.stall_s + first.times.persist_s + job.commit_s};
  // Failures of the cheapest tier in use, dropped ones' included, set its interval.
  double first_share = 0;
  for (const TierPlan& tier : out.tiers) {
    first_share += tier.times.share;
    if (tier.interval.is_used) break;
  }
  const double cost_s = std::max(out.times.cost_s(), 1e-12);
  const double first_mtti_s = mtti_s / first_share;
  out.floor_s = floor_interval_s({.stall_s = first.times.stall_s,
                                  .persist_s = first.times.persist_s,
                                  .write_s = job.write_s(),
                                  .in_flight = job.in_flight});
  if (is_finite) {
    out.young_s = young_interval_s(cost_s, first_mtti_s);
    out.daly_s = daly_interval_s(cost_s, first_mtti_s);
    out.exact_s = exact_interval_s(cost_s, first_mtti_s);
  }
  const Choice choice{.exact_s = is_finite ? out.exact_s : kInfinity,
                      .floor_s = out.floor_s,
                      .stall_s = first.times.stall_s,
                      .persist_s = in_use.back()->times.persist_s,
                      .rpo_s = job.rpo_s};
  auto choosing = choose_interval(choice);
  if (!choosing.ok()) return Error(Code::bad_argument, "--" + choosing.error().what());
  Chosen chosen = choosing.value();
  if (job.interval_s) {
    chosen = {*job.interval_s, BoundBy::given};
    if (unbroken::max_lost_s(*job.interval_s + choice.stall_s, choice.persist_s) > job.rpo_s)
      return Error(Code::bad_argument,
                   fmt::format("--rpo {} cannot be kept with --interval {}", format_duration(job.rpo_s),
                               format_duration(*job.interval_s)));
  }
  out.interval_s = chosen.interval_s;
  out.bound_by = chosen.bound_by;
  out.period_s = out.interval_s + first.times.stall_s;
  if (!is_finite) out.young_s = out.daly_s = out.exact_s = out.interval_s;
  fit_turns(in_use, out.period_s, job);
  return out;
}

}  // namespace unbroken
