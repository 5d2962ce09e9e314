#include "cadence/tiers.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace unbroken {

namespace {

constexpr std::size_t kNone = SIZE_MAX;
/// A write so many times as long as the time between failures never ends; no more needs to be known of it.
constexpr double kLagMax = 50;
constexpr int kRounds = 8;

/// The next tier after `i` that is in use.
std::size_t next_used(std::span<const TierInterval> plan, std::size_t i) {
  for (std::size_t k = i + 1; k < plan.size(); ++k)
    if (plan[k].is_used) return k;
  return kNone;
}

/// Shares with those of dropped tiers moved to the next one in use.
std::vector<double> shares_in_use(std::span<const TierTimes> tiers, std::span<const TierInterval> plan) {
  std::vector<double> shares(tiers.size(), 0);
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const std::size_t to = plan[i].is_used ? i : next_used(plan, i);
    shares[to == kNone ? i : to] += tiers[i].share;
  }
  return shares;
}

double first_order_interval_s(const TierTimes& tier, double share, double mtti_s) {
  return std::sqrt(2 * tier.cost_s() * mtti_s / share);
}

}  // namespace

std::vector<TierInterval> tier_intervals(std::span<const TierTimes> tiers, double mtti_s) {
  UNBROKEN_CHECK(!tiers.empty());
  std::vector<TierInterval> plan(tiers.size());
  for (std::size_t i = tiers.size(); --i > 0 && !(tiers[i].share > 0);) plan[i].is_used = false;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    const std::vector<double> shares = shares_in_use(tiers, plan);
    for (std::size_t i = 0; i < tiers.size(); ++i)
      plan[i].interval_s =
          first_order_interval_s(tiers[i], shares[i] > 0 ? shares[i] : tiers[i].share, mtti_s);
    for (std::size_t i = 0; i < tiers.size() && !has_changed; ++i) {
      const std::size_t up = next_used(plan, i);
      if (!plan[i].is_used || up == kNone) continue;
      const bool is_useless = !(shares[i] > 0) || plan[i].interval_s >= plan[up].interval_s;
      if (is_useless) plan[i].is_used = false, has_changed = true;
    }
  }
  std::uint64_t every = 1;
  double below_s = 0;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    if (!plan[i].is_used) continue;
    if (below_s > 0) {
      const double times = std::clamp(std::round(plan[i].interval_s / below_s), 1.0, 1e6);
      every *= static_cast<std::uint64_t>(times);
    }
    plan[i].every = every;
    below_s = plan[i].interval_s;
  }
  return plan;
}

namespace {

/// The tiers in use, bottom up, with everything that the formulas need.
struct Level {
  TierTimes times;       ///< share: with that of dropped tiers; slowdown: of what is no stall
  std::uint64_t every;   ///< of the saves
  std::uint64_t blocks;  ///< of the level below in one of this level
};

std::vector<Level> all_levels_of(const TierJob& job) {
  UNBROKEN_CHECK(job.tiers.size() == job.plan.size() && !job.tiers.empty());
  const std::vector<double> shares = shares_in_use(job.tiers, job.plan);
  std::vector<Level> levels;
  for (std::size_t i = 0; i < job.tiers.size(); ++i) {
    if (!job.plan[i].is_used) continue;
    TierTimes times = job.tiers[i];
    times.share = shares[i];
    const std::uint64_t below = levels.empty() ? 1 : levels.back().every;
    levels.push_back({times, job.plan[i].every, std::max<std::uint64_t>(job.plan[i].every / below, 1)});
  }
  return levels;
}

/// Mean over the saves: the safest tier that is due takes one. `of` is a member of a tier's times.
template <class Of>
double mean_of(const std::vector<Level>& levels, Of of) {
  double sum = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const double due = 1 / static_cast<double>(levels[i].every);
    const double due_higher = i + 1 < levels.size() ? 1 / static_cast<double>(levels[i + 1].every) : 0;
    sum += of(levels[i].times) * (due - due_higher);
  }
  return sum;
}

double mean_cost_s(const std::vector<Level>& levels) {
  return mean_of(levels, [](const TierTimes& times) { return times.cost_s(); });
}

double mean_stall_s(const std::vector<Level>& levels) {
  return mean_of(levels, [](const TierTimes& times) { return times.stall_s; });
}

double mean_slowdown_s(const std::vector<Level>& levels) {
  return mean_of(levels, [](const TierTimes& times) { return times.slowdown_s; });
}

std::vector<Level> levels_of(const TierJob& job) {
  const std::vector<Level> all = all_levels_of(job);
  std::vector<Level> levels = all;
  const double stall_s = mean_stall_s(levels);
  if (!(mean_slowdown_s(all) > 0)) return levels;
  // How much of a write falls into stalls depends on the period, and that on what is slowed.
  for (int round = 0; round < kRounds; ++round) {
    const double period_s = job.interval_s + mean_cost_s(levels);
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const TierTimes& times = all[i].times;
      if (!(times.persist_s > 0)) continue;
      const double whole = std::floor(times.persist_s / period_s);
      const double rest_s = times.persist_s - whole * period_s;
      const double blocked_s = whole * stall_s + std::max(rest_s - (period_s - stall_s), 0.0);
      levels[i].times.slowdown_s = times.slowdown_s * (1 - blocked_s / times.persist_s);
    }
  }
  return levels;
}

/// What writes of the saves before the one that a recovery goes back to, and of that one, would still slow.
double spared_s(const std::vector<Level>& levels, double period_s) {
  return mean_of(levels, [&](const TierTimes& times) {
    if (!(times.slowdown_s > 0) || !(times.persist_s > 0)) return times.slowdown_s;
    const double more = std::floor(times.persist_s / period_s);  // periods at whose begin it is still written
    return times.slowdown_s * (more + 1) * (1 - more * period_s / (2 * times.persist_s));
  });
}

/// The age of the newest checkpoint of a level in use, at a failure: on average, of which parts, in seconds.
/// Emergency saves, at a rate r, make it less: it is that of the last of them where it would be more.
struct Age {
  double work_s = 0;  ///< since the save: T/2, with notices 1/r - T/(e^(rT) - 1)
  double lag_s = 0;   ///< as a save is durable later: P, with notices (1 - e^(-rP)) T/(e^(rT) - 1)
  double missed_s =
      0;  ///< by turns missed: a failure of a cheaper kind ends the write, T later it comes again
};

Age age_of(const TierJob& job, const std::vector<Level>& levels, std::size_t i, double period_s) {
  const double persist_s = levels[i].times.persist_s;
  const double apart_s = period_s * static_cast<double>(levels[i].every);
  double below = 0;
  for (std::size_t k = 0; k < i; ++k) below += levels[k].times.share;
  const double ended = std::min((1 - job.notice_share) * below * persist_s / job.mtti_s, kLagMax);
  const double r = job.notice_share / job.mtti_s, x = r * apart_s;
  if (x < 1e-6) return {apart_s / 2, persist_s, apart_s * std::expm1(ended)};
  const double since_s = apart_s / std::expm1(x), missed = -std::expm1(-ended);
  return {1 / r - since_s, -std::expm1(-r * persist_s) * since_s,
          since_s * std::exp(-r * persist_s) * -std::expm1(-x) * missed / (1 - missed * std::exp(-x))};
}

/// Parts of the waste to first order.
Waste parts_of(const TierJob& job, const std::vector<Level>& levels) {
  Waste parts;
  const double period = job.interval_s + mean_cost_s(levels);
  parts.stall = mean_stall_s(levels) / period;
  parts.slowdown = mean_slowdown_s(levels) / period;
  parts.recovery = job.notice_share * job.notice_cost_s / job.mtti_s;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Age age = age_of(job, levels, i, period);
    const double rate = levels[i].times.share / job.mtti_s;
    parts.lost_work += (1 - job.notice_share) * rate * (age.work_s + age.missed_s);
    parts.persist_lag += (1 - job.notice_share) * rate * age.lag_s;
    parts.recovery += rate * levels[i].times.recovery_s;
  }
  return parts;
}

/// Adds seconds of the kinds in `more`, so many times.
void add(Waste& sum, const Waste& more, double times) {
  for (double Waste::* part :
       {&Waste::stall, &Waste::lost_work, &Waste::recovery, &Waste::persist_lag, &Waste::slowdown})
    sum.*part += times * more.*part;
}

/// How one attempt at something ends: done, or stopped by a failure of kind k or by a notice.
struct Outcome {
  Waste spent = {};  ///< seconds, on average; lost_work: all that was worked, kept or not
  double done = 1;
  std::vector<double> failed = {};  ///< by kind = level, and then the notices
  double work_s = 0;                ///< where it is done
  double saved_s = 0;               ///< work of it that an emergency save saved, on average
};

/// `seconds` of recovery, in which nothing is saved and nothing is heard of a notice.
Outcome try_for(double seconds, const std::vector<Level>& levels, double mtti_s) {
  const double fails = -std::expm1(-seconds / mtti_s);
  Outcome out{{.recovery = mtti_s * fails}, 1 - fails};
  for (const Level& level : levels) out.failed.push_back(fails * level.times.share);
  out.failed.push_back(0);
  return out;
}

/// Work and the save that ends it.
Outcome try_interval(const TierJob& job, const TierTimes& save, const std::vector<Level>& levels) {
  const double m = job.mtti_s, g = job.notice_share;
  const double slowed_s = mean_slowdown_s(levels);
  const double work_s = job.interval_s + slowed_s;
  const double all_s = work_s + save.stall_s;
  Outcome out = try_for(all_s, levels, m);
  const double worked_s = -m * std::expm1(-work_s / m);
  out.spent = {.stall = -m * std::exp(-work_s / m) * std::expm1(-save.stall_s / m),
               .lost_work = worked_s * job.interval_s / work_s,
               .slowdown = worked_s * slowed_s / work_s};
  for (double& p : out.failed) p *= 1 - g;
  const double fails = -std::expm1(-all_s / m);
  out.failed.back() = g * fails;
  out.work_s = job.interval_s;
  out.saved_s = g * job.interval_s / work_s * (worked_s - work_s * std::exp(-all_s / m));
  return out;
}

/// `first`, and then `second`, which is not begun when the first fails.
void append(Outcome& first, const Outcome& second) {
  const double done = first.done;
  add(first.spent, second.spent, done);
  first.saved_s += done * (second.saved_s + second.failed.back() * first.work_s);
  for (std::size_t k = 0; k < first.failed.size(); ++k) first.failed[k] += done * second.failed[k];
  first.done *= second.done;
  first.work_s += second.work_s;
}

/// `one`, n times in a row, by squaring.
Outcome repeat(Outcome one, std::uint64_t n) {
  Outcome out{{}, 1, std::vector<double>(one.failed.size(), 0)};
  for (; n > 0; n >>= 1) {
    if (n & 1) append(out, one);
    if (n > 1) append(one, one);
  }
  return out;
}

/// A recovery of kind `level`; failures of this kind or a lower one only start it anew.
Outcome recovery_of(std::size_t level, const std::vector<Level>& levels, double mtti_s) {
  Outcome out = try_for(levels[level].times.recovery_s, levels, mtti_s);
  double again = 0;
  for (std::size_t k = 0; k <= level; ++k) again += out.failed[k];
  out.spent.recovery /= 1 - again;
  out.done /= 1 - again;
  for (double& p : out.failed) p /= 1 - again;
  return out;
}

/// From a notice until the recovery is over, which each failure begins anew, from a safer tier where that
/// takes it.
double after_notice_s(const TierJob& job, const std::vector<Level>& levels) {
  double mean_s = 0;
  std::vector<double> whole_s(levels.size());  // recoveries, from each level on
  for (std::size_t i = levels.size(); i-- > 0;) {
    const Outcome recovery = recovery_of(i, levels, job.mtti_s);
    Outcome first = try_for(job.notice_cost_s + levels[i].times.recovery_s, levels, job.mtti_s);
    whole_s[i] = recovery.spent.recovery;
    for (std::size_t k = i + 1; k < levels.size(); ++k) whole_s[i] += recovery.failed[k] * whole_s[k];
    for (std::size_t k = 0; k < levels.size(); ++k)
      first.spent.recovery += first.failed[k] * whole_s[std::max(i, k)];
    mean_s += levels[i].times.share * first.spent.recovery;
  }
  return mean_s;
}

/// Makes an attempt one that goes on until it is done or a failure of a higher kind stops it; each failure of
/// kind `level` costs a recovery.
void insist(Outcome& attempt, std::size_t level, const Outcome& recovery) {
  const double fails = attempt.failed[level];
  const double scale = 1 / (1 - fails * recovery.done);
  add(attempt.spent, attempt.spent, scale - 1);
  attempt.spent.recovery += fails * recovery.spent.recovery * scale;
  attempt.done *= scale;
  attempt.saved_s *= scale;
  for (std::size_t k = 0; k < attempt.failed.size(); ++k)
    attempt.failed[k] = k <= level ? 0 : (attempt.failed[k] + fails * recovery.failed[k]) * scale;
}

/// A whole block of the safest tier. A block of a level is so many blocks of the level below, of which the
/// last ends with a save of this level; `whole` holds for each level one that ends with its own.
Outcome block_of_safest(const TierJob& job, const std::vector<Level>& levels) {
  std::vector<Outcome> whole, recoveries, before;  // before: all blocks of the level below but the last
  for (std::size_t top = 0; top < levels.size(); ++top) {
    recoveries.push_back(recovery_of(top, levels, job.mtti_s));
    if (top > 0) before.push_back(repeat(whole.back(), levels[top].blocks - 1));
    Outcome end = try_interval(job, levels[top].times, levels);
    insist(end, 0, recoveries[0]);
    for (std::size_t i = 1; i <= top; ++i) {
      Outcome block = before[i - 1];
      append(block, end);
      insist(block, i, recoveries[i]);
      end = std::move(block);
    }
    whole.push_back(std::move(end));
  }
  return whole.back();
}

/// All time: what is kept of it, and the rest.
struct Shares {
  double kept = 0;
  Waste waste;
};

Shares shares_of(const TierJob& job) {
  const std::vector<Level> levels = levels_of(job);
  const double period = job.interval_s + mean_cost_s(levels);
  if (!std::isfinite(job.mtti_s))
    return {job.interval_s / period,
            {.stall = mean_stall_s(levels) / period, .slowdown = mean_slowdown_s(levels) / period}};
  const Outcome whole = block_of_safest(job, levels);
  double lag = 0, missed = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Age age = age_of(job, levels, i, period);
    const double rate = (1 - job.notice_share) * levels[i].times.share / job.mtti_s;
    lag += rate * age.lag_s, missed += rate * age.missed_s;
  }
  const double spared = spared_s(levels, period) / job.mtti_s;
  const double noticed = whole.failed.back();
  const double work_s = (1 - noticed) * whole.work_s + whole.saved_s;
  Waste waste = whole.spent;
  waste.recovery += noticed * after_notice_s(job, levels);
  const double all_s = waste.sum();
  const double durable_at_once = work_s / all_s;
  const double kept = durable_at_once * std::exp(spared - lag - missed);
  if (!std::isfinite(kept)) return {0, {.recovery = 1}};
  for (double* part : {&waste.stall, &waste.recovery, &waste.slowdown}) *part /= all_s;
  waste.slowdown = std::max(waste.slowdown - durable_at_once * spared, 0.0);
  const double lost = std::max(1 - kept - waste.stall - waste.recovery - waste.slowdown, 0.0);
  waste.persist_lag = std::min(durable_at_once * -std::expm1(-lag), lost);
  waste.lost_work = lost - waste.persist_lag;
  return {kept, waste};
}

}  // namespace

double tier_efficiency_first_order(const TierJob& job) {
  const std::vector<Level> levels = levels_of(job);
  return std::max(1 - parts_of(job, levels).sum(), 0.0);
}

double tier_efficiency(const TierJob& job) {
  return shares_of(job).kept;
}

Waste tier_waste(const TierJob& job) {
  return shares_of(job).waste;
}

double tier_period_s(const TierJob& job) {
  return job.interval_s + mean_cost_s(levels_of(job));
}

double longest_block_s(const TierJob& job, std::size_t i) {
  UNBROKEN_CHECK(job.plan[i].is_used);
  double longest = job.interval_s * static_cast<double>(job.plan[i].every), last_s = 0;
  for (std::size_t k = i; k < job.tiers.size(); ++k)
    if (job.plan[k].is_used)
      last_s = std::max(last_s, job.tiers[k].stall_s), longest += job.tiers[k].slowdown_s;
  // Of the saves before the last one each is taken by the safest tier below this one that is due.
  for (std::size_t k = 0; k < i; ++k) {
    if (!job.plan[k].is_used) continue;
    const std::size_t up = next_used(job.plan, k);
    const double due = static_cast<double>(job.plan[i].every / job.plan[k].every);
    const double higher = up < i ? static_cast<double>(job.plan[i].every / job.plan[up].every) : 1;
    longest += job.tiers[k].cost_s() * (due - higher);
  }
  return longest + last_s;
}

}  // namespace unbroken
