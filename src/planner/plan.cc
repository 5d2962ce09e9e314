#include "planner/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace unbroken {

namespace {

constexpr double kSecondsInDay = 86400;

/// Windows that clouds and launchers give, in seconds. Source: docs/concepts/cadence.md.
const std::vector<std::pair<const char*, double>> kWindows{{"gke-spot", 15},   {"gcp-spot", 30},
                                                           {"azure-spot", 30}, {"torchrun", 30},
                                                           {"kubernetes", 30}, {"aws-spot", 120}};
/// Slower than this, all writers together, on many nodes: one process writes for all of them.
constexpr double kOneWriter_bytes_per_s = 2e9;
constexpr double kOneWriterShare_bytes_per_s = 1e8;  ///< for each node

std::vector<NoticeFit> notices_of(const JobInputs& job) {
  std::vector<NoticeFit> out;
  const double needs_s = job.notice_needs_s();
  if (job.notice_s) out.push_back({"given", *job.notice_s, needs_s, fits_notice(needs_s, *job.notice_s)});
  for (const auto& [name, window_s] : kWindows)
    out.push_back({name, window_s, needs_s, fits_notice(needs_s, window_s)});
  return out;
}

/// Does what was said of the last tier agree with what it takes? Some say its own share.
bool is_share_of_last(const JobInputs& job) {
  double below = 0;
  for (std::size_t i = 0; i + 1 < job.tiers.size(); ++i) below = std::max(below, job.tiers[i].recovers);
  return job.last_recovers >= 1 || std::abs(below + job.last_recovers - 1) < 1e-9;
}

std::vector<PlanWarning> warnings_of(const Plan& plan) {
  const JobInputs& job = plan.job;
  const SavePlan& saves = plan.saves;
  std::vector<PlanWarning> out;
  const double ratio = job.stall_s / job.mtti_s;
  if (!plan.is_viable)
    out.push_back(
        {"not-viable", fmt::format("not viable: delta/M {:.2f}, efficiency {:.1f} %: the job loses more than "
                                   "it keeps",
                                   ratio, 100 * plan.efficiency)});
  if (job.write_bytes_per_s && job.nodes > 1) {
    const double rate = *job.write_bytes_per_s;
    const bool is_slow = rate < kOneWriter_bytes_per_s && rate / job.nodes < kOneWriterShare_bytes_per_s;
    if (job.writers == 1.0 || is_slow)
      out.push_back(
          {"one-writer",
           fmt::format("one writer: {:.2f} GB/s for {:.0f} nodes; shards written by every node "
                       "at once would take {}",
                       rate / 1e9, job.nodes, format_duration(*job.state_bytes / (1e9 * job.nodes)))});
  }
  if (auto below = below_floor(saves))
    out.push_back(std::move(*below));
  else if (saves.bound_by == BoundBy::floor)
    out.push_back({"floor", fmt::format("the storage follows only every {} of work; the optimum is {}",
                                        format_duration(saves.floor_s), format_duration(saves.exact_s))});
  if (!plan.ettr.is_in_domain)
    out.push_back(
        {"ettr-domain", "ETTR is a form for small losses and does not hold here: read the efficiency"});
  if (saves.bound_by == BoundBy::rpo)
    out.push_back({"rpo", fmt::format("--rpo {} asks for {}, the optimum is {}", format_duration(job.rpo_s),
                                      format_duration(saves.interval_s), format_duration(saves.exact_s))});
  if (saves.young_s > job.mtti_s)
    out.push_back({"young-beyond-mtti",
                   fmt::format("Young's interval {} is longer than the mean time to interruption {}",
                               format_duration(saves.young_s), format_duration(job.mtti_s))});
  if (job.is_prior_assumed)
    out.push_back({"prior-assumed",
                   "no failure rate was given: 3.8 per 1,000 node-days is assumed (--mtti, --node-mtbf "
                   "or --failures-per-1000-node-days)"});
  if (!is_share_of_last(job))
    out.push_back(
        {"last-tier", fmt::format("tier {} takes all the rest of the failures, not those of recovers={:g}",
                                  job.tiers.back().name, job.last_recovers)});
  if (job.is_preset_outgrown)
    out.push_back({"preset-mtti",
                   fmt::format("the preset's {} between interruptions hold for its own size, not for {:.0f} "
                               "accelerators (--mtti, --node-mtbf or "
                               "--failures-per-1000-node-days)",
                               format_duration(job.mtti_s), job.gpus)});
  if (job.notice_share > 0 && !saves.is_notice_used)
    out.push_back(
        {"notice", fmt::format("the emergency save needs {} and does not fit 90 % of a notice of {}",
                               format_duration(job.notice_needs_s()), format_duration(*job.notice_s))});
  return out;
}

double first_order_efficiency(const SavePlan& saves) {
  if (saves.has_tiers()) {
    std::vector<TierTimes> times;
    std::vector<TierInterval> intervals;
    for (const TierPlan& tier : saves.tiers) {
      times.push_back(tier.times);
      intervals.push_back(tier.interval);
    }
    return tier_efficiency_first_order({times, intervals, saves.interval_s, saves.times.mtti_s,
                                        saves.times.notice_share, saves.times.notice_cost_s});
  }
  const JobTimes& t = saves.times;
  const double period = saves.interval_s + t.cost_s();
  const double lost = (1 - t.notice_share) * (period / 2 + t.persist_s) + t.recovery_s;
  return std::clamp(1 - t.cost_s() / period - lost / t.mtti_s, 0.0, 1.0);
}

/// Planned anew, within the same promise and with the same interval; 0 where these leave no plan.
double efficiency_of(const JobInputs& job) {
  const auto saves = plan_saves(job);
  return saves.ok() ? saves.value().efficiency() : 0;
}

std::vector<Sensitivity> sensitivity_of(const JobInputs& job, double now) {
  std::vector<Sensitivity> out;
  const auto add = [&](const char* parameter, double factor, auto change) {
    JobInputs better = job;
    change(better);
    if (const double gain = efficiency_of(better) - now; gain >= 0) out.push_back({parameter, factor, gain});
  };
  const auto scale_tiers = [](JobInputs& j, double TierInput::* field, double factor) {
    for (TierInput& tier : j.tiers) tier.*field *= factor;
  };
  add("stall", 0.5, [&](JobInputs& j) { j.stall_s /= 2, scale_tiers(j, &TierInput::stall_s, 0.5); });
  add("persist", 0.5, [&](JobInputs& j) {
    j.persist_s /= 2, scale_tiers(j, &TierInput::persist_s, 0.5);
    if (j.is_rate_given) *j.write_bytes_per_s *= 2;
  });
  add("recovery", 0.5, [&](JobInputs& j) { j.recovery_s /= 2, scale_tiers(j, &TierInput::recovery_s, 0.5); });
  add("mtti", 2, [](JobInputs& j) { j.mtti_s *= 2; });
  if (job.slowdown > 0) add("slowdown", 0.5, [](JobInputs& j) { j.slowdown /= 2; });
  std::sort(out.begin(), out.end(), [](const Sensitivity& a, const Sensitivity& b) {
    return std::pair(-a.efficiency_gain, a.parameter) < std::pair(-b.efficiency_gain, b.parameter);
  });
  return out;
}

void count_storage(Plan& plan) {
  const JobInputs& job = plan.job;
  if (!job.state_bytes) return;
  const double copies = static_cast<double>(job.keep_last) + job.in_flight;
  double bytes = 0, usd = 0;
  bool has_price = false;
  for (const TierPlan& tier : plan.saves.tiers) {
    if (!tier.interval.is_used) continue;
    const auto it = std::find_if(job.tiers.begin(), job.tiers.end(),
                                 [&](const TierInput& t) { return t.name == tier.name; });
    const auto price = it != job.tiers.end() && it->gb_month_usd ? it->gb_month_usd : job.gb_month_usd;
    bytes += copies * *job.state_bytes;
    if (price) usd += copies * *job.state_bytes / 1e9 * *price, has_price = true;
  }
  plan.storage_bytes = bytes;
  if (has_price) plan.storage_usd_per_month = usd;
}

}  // namespace

std::optional<PlanWarning> below_floor(const SavePlan& saves) {
  if (saves.bound_by != BoundBy::given || saves.asked_s >= saves.floor_s * (1 - 1e-9)) return std::nullopt;
  return PlanWarning{
      "floor", fmt::format("saves fall due every {} of work but the storage follows only every {}: those "
                           "that find no room are skipped, and one is made every {}",
                           format_duration(saves.asked_s), format_duration(saves.floor_s),
                           format_duration(saves.interval_s))};
}

Result<Plan> make_plan(const JobInputs& job) {
  UNBROKEN_TRY(SavePlan saves, plan_saves(job));
  Plan plan;
  plan.job = job;
  plan.saves = std::move(saves);
  const SavePlan& s = plan.saves;
  plan.failures_per_1000_node_days = failures_per_1000_node_days(job.nodes, job.mtti_s);
  plan.efficiency = s.efficiency();
  plan.efficiency_young = s.efficiency_at(s.young_s);
  plan.efficiency_daly = s.efficiency_at(s.daly_s);
  plan.efficiency_exact = s.efficiency_at(s.exact_s);
  plan.efficiency_first_order = first_order_efficiency(s);
  plan.ettr = s.ettr();
  plan.is_viable = plan.efficiency >= 0.5 && s.times.stall_s / job.mtti_s <= 0.5;
  plan.waste = s.waste();

  const double job_s = job.days * kSecondsInDay;
  plan.failures = job_s / job.mtti_s;
  plan.p_none = std::exp(-plan.failures);
  plan.lost_gpu_hours = (1 - plan.efficiency) * job.gpus * job_s / 3600;
  if (job.gpu_hour_usd) plan.lost_usd = plan.lost_gpu_hours * *job.gpu_hour_usd;
  count_storage(plan);
  plan.notices = notices_of(job);
  plan.sensitivity = sensitivity_of(job, plan.efficiency);
  plan.warnings = warnings_of(plan);
  return plan;
}

}  // namespace unbroken
