// When to save: the interval of each tier, held by the storage and by what was promised.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

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
    plan.times = {tier.stall_s, tier.persist_s, tier.recovery_s, std::max(tier.recovers - below, 0.0),
                  job.slowdown * tier.persist_s};
    plan.recovers = below = std::max(below, tier.recovers);
    out.push_back(plan);
  }
  if (out.empty())
    out.push_back({"", {job.stall_s, job.persist_s, job.recovery_s, 1, job.slowdown * job.persist_s}, 1, {}});
  return out;
}

/// The tiers in use, bottom up.
std::vector<TierPlan*> used(std::vector<TierPlan>& tiers) {
  std::vector<TierPlan*> out;
  for (TierPlan& tier : tiers)
    if (tier.interval.is_used) out.push_back(&tier);
  return out;
}

/// A tier whose write outlasts its turn is given it more rarely.
void fit_turns(const std::vector<TierPlan*>& tiers, double period_s, const JobInputs& job) {
  for (std::size_t i = 1; i < tiers.size(); ++i) {
    const double below = static_cast<double>(tiers[i - 1]->interval.every);
    double times = std::round(static_cast<double>(tiers[i]->interval.every) / below);
    const double persist_s = tiers[i]->times.persist_s;
    times = std::max(times, std::ceil(persist_s / job.in_flight / (period_s * below) - 1e-9));
    times = std::clamp(times, 1.0, 1e6);
    tiers[i]->interval.every = static_cast<std::uint64_t>(below * times);
  }
}

double floor_of(const TierTimes& times, const JobInputs& job) {
  return floor_interval_s({.stall_s = times.stall_s,
                           .persist_s = times.persist_s,
                           .write_s = job.write_s(),
                           .slowdown = job.slowdown,
                           .in_flight = job.in_flight});
}

JobTimes without_limit(JobTimes times) {
  times.in_flight = 0;
  return times;
}

}  // namespace

TierJob SavePlan::tier_job(double tau_s, std::vector<TierTimes>& tier_times,
                           std::vector<TierInterval>& intervals) const {
  for (const TierPlan& tier : tiers) {
    tier_times.push_back(tier.times);
    intervals.push_back(tier.interval);
  }
  return {tier_times, intervals, tau_s, times.mtti_s, times.notice_share, times.notice_cost_s};
}

double SavePlan::share_of(const TierPlan& tier) const {
  if (!tier.interval.is_used) return 0;
  double share = 0;
  for (const TierPlan& other : tiers) {
    share = (other.interval.is_used && &other < &tier ? 0 : share + other.times.share);
    if (&other == &tier) break;
  }
  return share;
}

template <class Of>
double SavePlan::mean_over_failures(Of of) const {
  double sum = 0;
  for (const TierPlan& tier : tiers)
    if (tier.interval.is_used) sum += share_of(tier) * of(tier);
  return sum;
}

double SavePlan::efficiency_at(double tau_s) const {
  if (!has_tiers()) return unbroken::efficiency(tau_s, without_limit(times));
  std::vector<TierTimes> tier_times;
  std::vector<TierInterval> intervals;
  return tier_efficiency(tier_job(tau_s, tier_times, intervals));
}

Waste SavePlan::waste_at(double tau_s) const {
  if (!has_tiers()) return waste_of(tau_s, without_limit(times));
  std::vector<TierTimes> tier_times;
  std::vector<TierInterval> intervals;
  return tier_waste(tier_job(tau_s, tier_times, intervals));
}

double SavePlan::efficiency() const {
  return asked_s > 0 && !has_tiers() ? unbroken::efficiency(asked_s, times) : efficiency_at(interval_s);
}

Waste SavePlan::waste() const {
  return asked_s > 0 && !has_tiers() ? waste_of(asked_s, times) : waste_at(interval_s);
}

double SavePlan::max_lost_s() const {
  if (!has_tiers()) return unbroken::max_lost_s(longest_s, times.persist_s);
  double most = 0;
  for (const TierPlan& tier : tiers)
    if (tier.interval.is_used) most = std::max(most, max_lost_of(tier));
  return most;
}

double SavePlan::mean_period_s() const {
  std::vector<TierTimes> tier_times;
  std::vector<TierInterval> intervals;
  return tier_period_s(tier_job(interval_s, tier_times, intervals));
}

double SavePlan::max_lost_of(const TierPlan& tier) const {
  std::vector<TierTimes> tier_times;
  std::vector<TierInterval> intervals;
  const TierJob job = tier_job(interval_s, tier_times, intervals);
  return longest_block_s(job, static_cast<std::size_t>(&tier - tiers.data())) + tier.times.persist_s;
}

double SavePlan::mean_stall_s() const {
  double sum = 0, due_higher = 0;
  for (std::size_t i = tiers.size(); i-- > 0;) {
    if (!tiers[i].interval.is_used) continue;
    const double due = 1 / static_cast<double>(tiers[i].interval.every);
    sum += tiers[i].times.stall_s * (due - due_higher);
    due_higher = due;
  }
  return sum;
}

double SavePlan::period_of(const TierPlan& tier) const {
  return period_s * static_cast<double>(tier.interval.every);
}

double SavePlan::mean_lost_s() const {
  return (1 - times.notice_share) * mean_over_failures([&](const TierPlan& tier) {
           return unbroken::mean_lost_s(period_of(tier), tier.times.persist_s);
         });
}

Ettr SavePlan::ettr() const {
  // With tiers half of what lies between two saves of the one that a failure goes back to; nothing of it
  // after a notice, but the emergency save.
  const double g = times.notice_share;
  const double before_s = g * times.notice_cost_s + mean_over_failures([&](const TierPlan& tier) {
                            const double between_s = has_tiers() ? period_of(tier) : interval_s;
                            return tier.times.recovery_s + (1 - g) * between_s / 2;
                          });
  return unbroken::ettr({.interval_s = interval_s,
                         .stall_s = mean_stall_s(),
                         .recovery_s = before_s - interval_s / 2,
                         .mtti_s = times.mtti_s});
}

namespace {

/// Where nothing else says when to save.
constexpr double kQuiet_s = 3600;

/// What is done when saves are asked for every `asked_s`: below the floor those that find no room are
/// skipped.
double done_s(double asked_s, double floor_s, std::uint32_t in_flight) {
  if (asked_s >= floor_s) return asked_s;
  return asked_s * std::ceil(in_flight * floor_s / asked_s - 1e-9) / in_flight;
}

Error not_with_interval(const JobInputs& job, double lost_s) {
  return Error(
      Code::bad_argument,
      fmt::format("--rpo {} cannot be kept with --interval {}: up to {} can be lost",
                  format_duration(job.rpo_s), format_duration(*job.interval_s), format_duration(lost_s)));
}

/// The least that the safest tier can lose is what it loses when every save is its own.
Error not_with_tiers(const JobInputs& job, const TierPlan& safest) {
  const TierTimes& times = safest.times;
  const double period_s = std::max({times.persist_s / job.in_flight, job.write_s(), times.stall_s});
  return Error(
      Code::bad_argument,
      fmt::format("--rpo: {} cannot be kept: with {} for which a save of tier {} blocks, {} until it "
                  "is durable and {} from save to save at least (the floor) up to {} can be lost",
                  format_duration(job.rpo_s), format_duration(times.stall_s), safest.name,
                  format_duration(times.persist_s), format_duration(period_s),
                  format_duration(period_s + times.persist_s)));
}

Result<> choose_alone(SavePlan& plan, const JobInputs& job) {
  const double persist_s = plan.times.persist_s, stall_s = plan.times.stall_s;
  double slowed_s = 0;
  if (std::isfinite(job.rpo_s) && job.slowdown > 0) {
    const double longest_s =
        std::max({job.rpo_s - persist_s, persist_s / job.in_flight, job.write_s(), stall_s});
    slowed_s = longest_s - stall_s - work_in_s(longest_s, plan.times);
  }
  auto choosing = choose_interval({.exact_s = std::isfinite(job.mtti_s) ? plan.exact_s : kInfinity,
                                   .floor_s = plan.floor_s,
                                   .stall_s = stall_s,
                                   .persist_s = persist_s,
                                   .slowed_s = slowed_s,
                                   .rpo_s = job.rpo_s});
  if (!choosing.ok()) return Error(Code::bad_argument, "--" + choosing.error().what());
  plan.interval_s = choosing.value().interval_s;
  plan.bound_by = choosing.value().bound_by;
  if (!job.interval_s) return Done{};
  plan.asked_s = *job.interval_s;
  // Writes that share a rate follow each other no faster by being several.
  plan.times.in_flight = job.is_write_shared ? 1 : job.in_flight;
  const Rhythm rhythm = rhythm_of(plan.asked_s, plan.times);
  plan.interval_s = rhythm.interval_s;
  plan.bound_by = BoundBy::given;
  const double lost_s = max_lost_s(rhythm.longest_s, persist_s);
  if (lost_s > job.rpo_s) return not_with_interval(job, lost_s);
  return Done{};
}

/// The best plan for several tiers within what the storage follows and what was promised: which tiers, their
/// turns, and the interval.
class TierSearch {
 public:
  TierSearch(const SavePlan& from, const JobInputs& job) : plan_(from), job_(job) { plan_.times.stall_s = 0; }

  /// The best; nothing where the promise cannot be kept.
  std::optional<SavePlan> run() {
    std::size_t lower = plan_.tiers.size() - 1;  // below the safest that any failure needs
    for (; lower > 0 && !(plan_.tiers[lower].times.share > 0); --lower)
      plan_.tiers[lower].interval.is_used = false;
    // Every choice of three below the safest; with more of them, and no more than six, all those.
    const std::size_t subsets = std::size_t{1} << std::min<std::size_t>(lower, 3);
    for (std::size_t choice = 0; choice < subsets; ++choice) {
      for (std::size_t i = 0; i <= lower; ++i) {
        const std::size_t down = lower - i;  // 0: the safest
        plan_.tiers[i].interval.is_used = down == 0 || (down <= 3 && (choice >> (down - 1) & 1) == 1);
      }
      search_turns();
    }
    for (std::size_t count = 4; count <= std::min<std::size_t>(lower, 6); ++count) {
      for (std::size_t i = 0; i <= lower; ++i) plan_.tiers[i].interval.is_used = lower - i <= count;
      search_turns();
    }
    if (best_) polish();
    return best_;
  }

 private:
  static constexpr double kCoarse = 1e-3, kFine = 1e-6;  // of an interval
  static constexpr int kPastPeak = 4, kRounds = 16;
  static constexpr double kGain = 1e-9;

  /// One tier's turns after the other, twice over. The efficiency over the turns of one has one peak.
  void search_turns() {
    const std::vector<TierPlan*> tiers = used(plan_.tiers);
    std::vector<double> turns(tiers.size(), 1);
    double best = value_of(tiers, turns);
    bool has_gained = tiers.size() > 1;
    for (int round = 0; round < 2 && has_gained; ++round) {
      has_gained = false;
      for (std::size_t i = tiers.size(); --i > 0;) {
        double kept = turns[i], peak = -1;
        int lower = 0;  // in a row
        for (double times = 1; times <= 1024 && lower < kPastPeak;
             times = std::max(times + 1, std::floor(times * 1.25))) {
          turns[i] = times;
          const double value = value_of(tiers, turns);
          lower = value < peak ? lower + 1 : 0;
          peak = std::max(peak, value);
          if (value > best) best = value, kept = times, has_gained = tiers.size() > 2;
        }
        turns[i] = kept;
      }
    }
  }

  /// The best again, with its interval to the last digits, and what lies around it.
  void polish() {
    plan_ = *best_;
    best_.reset();
    tolerance_ = kFine;
    const std::vector<TierPlan*> tiers = used(plan_.tiers);
    std::vector<double> turns{1};
    for (std::size_t i = 1; i < tiers.size(); ++i)
      turns.push_back(static_cast<double>(tiers[i]->interval.every / tiers[i - 1]->interval.every));
    value_of(tiers, turns);
    if (tiers.size() > 4) return;
    for (const double share : {0.2, 0.05, 0.0})
      for (int round = 0; round < kRounds && climb(tiers, turns, share); ++round) {
      }
  }

  /// The best of the neighbours: each tier's turns fewer, as they are, or more, by a share of them or by one.
  bool climb(const std::vector<TierPlan*>& tiers, std::vector<double>& turns, double share) {
    const std::vector<double> from = turns;
    std::size_t neighbours = 1;
    for (std::size_t i = 1; i < tiers.size(); ++i) neighbours *= 3;
    double best = best_value_;
    for (std::size_t k = 0; k < neighbours; ++k) {
      std::vector<double> near = from;
      std::size_t digits = k;
      for (std::size_t i = 1; i < near.size(); ++i, digits /= 3)
        near[i] += (static_cast<double>(digits % 3) - 1) * std::max(std::round(share * near[i]), 1.0);
      if (*std::min_element(near.begin(), near.end()) < 1) continue;
      if (const double value = value_of(tiers, near); value > best * (1 + kGain)) best = value, turns = near;
    }
    return turns != from;
  }

  double value_of(const std::vector<TierPlan*>& tiers, const std::vector<double>& turns) {
    double every = 1, low_s = 0, stalls_s = 0, slowed_s = 0;  // by cheaper tiers' saves, for each save
    const double speed = 1 - job_.in_flight * job_.slowdown;  // where as many of one tier persist as may
    for (std::size_t i = 0; i < tiers.size(); ++i) {
      const TierTimes& times = tiers[i]->times;
      if (i > 0) {
        stalls_s += tiers[i - 1]->times.stall_s * (1 - 1 / turns[i]) / every;
        slowed_s += tiers[i - 1]->times.slowdown_s * (1 - 1 / turns[i]) / every;
      }
      every *= i > 0 ? turns[i] : 1;
      tiers[i]->interval.every = static_cast<std::uint64_t>(every);
      // From one save of this tier to the next, with none of a safer one between, nothing else blocks.
      const double stretch_s = (times.persist_s / job_.in_flight - times.stall_s) / every - stalls_s;
      low_s = std::max(low_s, stretch_s * speed - slowed_s);
    }
    if (tiers.size() == 1) low_s = floor_of(tiers[0]->times, job_);
    plan_.times.stall_s = tiers[0]->times.stall_s;
    plan_.floor_s = std::max(low_s, 0.0);
    plan_.interval_s = 0;
    double high_s = std::isfinite(job_.mtti_s) ? 100 * job_.mtti_s : kQuiet_s;
    high_s = std::max(high_s, plan_.floor_s);
    // What may be lost grows with the interval by a known factor for each tier.
    for (const TierPlan* tier : tiers)
      high_s = std::min(high_s,
                        (job_.rpo_s - plan_.max_lost_of(*tier)) / static_cast<double>(tier->interval.every));
    low_s = std::max(plan_.floor_s, 1e-6 * high_s);
    if (job_.interval_s) {
      const double asked_s = done_s(*job_.interval_s, plan_.floor_s, job_.in_flight);
      if (asked_s > high_s * (1 + 1e-12)) return -1;
      low_s = high_s = asked_s;
    }
    if (!(high_s > 0) || low_s > high_s * (1 + 1e-12)) return -1;
    plan_.interval_s = std::min(highest(low_s, high_s), high_s);
    const double value = plan_.efficiency();
    if (!best_ || value > best_value_) best_ = plan_, best_value_ = value;
    return value;
  }

  /// Where the efficiency is highest; it has one peak. Golden section over the logarithm.
  double highest(double low_s, double high_s) const {
    constexpr double kGolden = 0.6180339887498949;
    double a = std::log(low_s), b = std::log(high_s);
    const auto at = [&](double x) { return plan_.efficiency_at(std::exp(x)); };
    double left = b - kGolden * (b - a), right = a + kGolden * (b - a);
    double at_left = at(left), at_right = at(right);
    while (b - a > tolerance_) {
      const bool is_left = at_left >= at_right && at_left > 0;
      (is_left ? b : a) = is_left ? right : left;
      if (!(at_left > 0) && !(at_right > 0)) b = right, a = std::log(low_s);  // far beyond the peak
      left = b - kGolden * (b - a), right = a + kGolden * (b - a);
      at_left = at(left), at_right = at(right);
    }
    const double ends[] = {std::log(low_s), std::log(high_s), (a + b) / 2};
    return std::exp(*std::max_element(std::begin(ends), std::end(ends),
                                      [&](double x, double y) { return at(x) < at(y); }));
  }

  SavePlan plan_;
  const JobInputs& job_;
  double tolerance_ = kCoarse;
  std::optional<SavePlan> best_;
  double best_value_ = -1;
};

/// What the cheapest tier in use says of the job; failures of dropped ones below it are its own.
void describe_by_first(SavePlan& plan, const JobInputs& job) {
  const TierPlan& first = *used(plan.tiers).front();
  plan.times.stall_s = first.times.stall_s;
  plan.times.persist_s = first.times.persist_s;
  plan.times.recovery_s = first.times.recovery_s;
  if (!std::isfinite(job.mtti_s)) return;
  JobTimes times = plan.times;
  times.mtti_s = job.mtti_s / plan.share_of(first);
  times.stall_s = std::max(times.stall_s, 1e-12);
  const double mtti_s = mtti_without_notice_s(times.mtti_s, times.notice_share);
  plan.young_s = young_interval_s(times.cost_s(), mtti_s);
  plan.daly_s = daly_interval_s(times.cost_s(), mtti_s);
  plan.exact_s = exact_interval_s(times);
}

/// Without failures the turns are those that each tier asks for by itself.
void choose_without_failures(SavePlan& plan, const std::vector<TierPlan*>& in_use, const JobInputs& job) {
  plan.interval_s = std::max(kQuiet_s, plan.floor_s);
  plan.bound_by = BoundBy::no_failures;
  if (job.interval_s) plan.interval_s = done_s(*job.interval_s, plan.floor_s, job.in_flight);
  fit_turns(in_use, plan.interval_s + plan.times.stall_s, job);
}

/// The best of all plans; where it breaks the promise, the best of those that keep it.
Result<> choose_with_tiers(SavePlan& plan, const std::vector<TierPlan*>& in_use, const JobInputs& job) {
  JobInputs free = job;
  free.rpo_s = kInfinity;
  std::optional<SavePlan> best;
  if (std::isfinite(job.mtti_s)) best = TierSearch(plan, free).run();
  if (!best) {
    choose_without_failures(plan, in_use, job);
    best = plan;
  }
  const double lost_s = best->max_lost_s();
  const bool is_broken = lost_s > job.rpo_s;
  if (is_broken) best = TierSearch(plan, job).run();
  if (!best && job.interval_s) return not_with_interval(job, lost_s);
  if (!best) return not_with_tiers(job, plan.tiers.back());
  plan = std::move(*best);
  describe_by_first(plan, job);
  if (job.interval_s) {
    plan.asked_s = *job.interval_s;
    plan.bound_by = BoundBy::given;
  } else if (is_broken) {
    plan.bound_by = BoundBy::rpo;
  } else if (std::isfinite(job.mtti_s)) {
    plan.bound_by = plan.interval_s > plan.floor_s * (1 + 1e-6) ? BoundBy::optimum : BoundBy::floor;
  }
  return Done{};
}

}  // namespace

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
  const TierTimes& first = in_use.front()->times;

  out.times.mtti_s = job.mtti_s;
  out.times.slowdown = job.slowdown;
  out.times.notice_share = share;
  out.times.notice_cost_s = job.notice_cost_s();
  describe_by_first(out, job);
  out.floor_s = floor_of(first, job);
  if (out.has_tiers()) {
    UNBROKEN_DO(choose_with_tiers(out, in_use, job));
  } else {
    UNBROKEN_DO(choose_alone(out, job));
  }
  if (out.has_tiers()) {
    out.period_s = out.mean_period_s();
  } else {
    const Rhythm rhythm = rhythm_of(out.asked_s > 0 ? out.asked_s : out.interval_s, out.times);
    out.period_s = rhythm.period_s, out.longest_s = rhythm.longest_s;
  }
  if (!is_finite) out.young_s = out.daly_s = out.exact_s = out.interval_s;
  return out;
}

}  // namespace unbroken
