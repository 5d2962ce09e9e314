// A plan as JSON (the keys of the reference) and as text for people.
#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "cadence/explain.h"
#include "planner/plan.h"

namespace unbroken {

namespace {

Json maybe(const std::optional<double>& value) {
  return value ? json_number(*value) : Json();
}

Json to_json(const Waste& waste) {
  return {{"stall", waste.stall},
          {"lost_work", waste.lost_work},
          {"recovery", waste.recovery},
          {"persist_lag", waste.persist_lag},
          {"slowdown", waste.slowdown}};
}

Json tiers_json(const SavePlan& saves) {
  Json out = Json::array();
  for (const TierPlan& tier : saves.tiers) {
    // What F7 asks for; where there is one tier, what is done.
    const double asked_s = tier.interval.interval_s;  // infinite where no failure is of this tier
    const bool is_asking = saves.has_tiers() && std::isfinite(saves.times.mtti_s) && std::isfinite(asked_s);
    const double interval_s = is_asking ? asked_s : saves.interval_s;
    out.push_back({{"name", tier.name.empty() ? "storage" : tier.name},
                   {"interval_s", json_number(interval_s)},
                   {"period_s", json_number(saves.period_of(tier))},
                   {"every", tier.interval.every},
                   {"share", saves.share_of(tier)},
                   {"used", tier.interval.is_used}});
  }
  return out;
}

std::string usd(double value) {
  return value >= 1e6 ? fmt::format("${:.2f} million", value / 1e6) : fmt::format("${:.0f}", value);
}

/// Of 1,000 node-days.
std::string rate(double value) {
  return value < 0.01 ? fmt::format("{:.2g}", value) : fmt::format("{:.2f}", value);
}

std::string gigabytes(double bytes) {
  return bytes < 1e12 ? fmt::format("{:.4g} GB", bytes / 1e9) : fmt::format("{:.0f} GB", bytes / 1e9);
}

std::string percent(double value) {
  return fmt::format("{:.2f} %", 100 * value);
}

}  // namespace

std::string counted(double count, std::string_view what) {
  return fmt::format("{:.0f} {}{}", count, what, count == 1 ? "" : "s");
}

Json to_json(const Plan& plan) {
  const SavePlan& s = plan.saves;
  Json notices = Json::array(), warnings = Json::array(), sensitivity = Json::array();
  for (const NoticeFit& n : plan.notices)
    notices.push_back({{"name", n.name}, {"window_s", n.window_s}, {"needs_s", n.needs_s}, {"fits", n.fits}});
  for (const PlanWarning& w : plan.warnings) warnings.push_back({{"code", w.code}, {"text", w.text}});
  for (const Sensitivity& one : plan.sensitivity)
    sensitivity.push_back(
        {{"parameter", one.parameter}, {"factor", one.factor}, {"efficiency_gain", one.efficiency_gain}});
  return {{"preset", plan.job.preset.empty() ? Json() : Json(plan.job.preset)},
          {"inputs", to_json(plan.job)},
          {"mtti_s", json_number(plan.job.mtti_s)},
          {"failures_per_1000_node_days", plan.failures_per_1000_node_days},
          {"interval",
           {{"young_s", s.young_s},
            {"daly_s", s.daly_s},
            {"exact_s", s.exact_s},
            {"floor_s", s.floor_s},
            {"chosen_s", s.interval_s},
            {"period_s", s.period_s},
            {"bound_by", std::string(name_of(s.bound_by))}}},
          {"efficiency", plan.efficiency},
          {"efficiency_at",
           {{"young", plan.efficiency_young},
            {"daly", plan.efficiency_daly},
            {"exact", plan.efficiency_exact},
            {"first_order", plan.efficiency_first_order}}},
          {"ettr", {{"value", plan.ettr.value}, {"in_domain", plan.ettr.is_in_domain}}},
          {"viable", plan.is_viable},
          {"waste", to_json(plan.waste)},
          {"expected",
           {{"days", plan.job.days},
            {"failures", plan.failures},
            {"p_none", plan.p_none},
            {"lost_gpu_hours", plan.lost_gpu_hours},
            {"lost_usd", maybe(plan.lost_usd)},
            {"max_lost_s", s.max_lost_s()},
            {"mean_lost_s", s.mean_lost_s()}}},
          {"storage",
           {{"bytes", maybe(plan.storage_bytes)}, {"usd_per_month", maybe(plan.storage_usd_per_month)}}},
          {"tiers", tiers_json(s)},
          {"notice", notices},
          {"warnings", warnings},
          {"sensitivity", sensitivity}};
}

std::string plan_text(const Plan& plan) {
  const JobInputs& job = plan.job;
  const SavePlan& s = plan.saves;
  std::string out;
  const auto line = [&](std::string_view label, const std::string& text) {
    out += fmt::format("{:<12}{}\n", label, text);
  };
  const bool has_failures = std::isfinite(job.mtti_s);
  line("job", fmt::format("{} on {}, {}", counted(job.gpus, "accelerator"), counted(job.nodes, "node"),
                          has_failures ? fmt::format("one failure every {} ({} per 1,000 node-days)",
                                                     format_duration(job.mtti_s),
                                                     rate(plan.failures_per_1000_node_days))
                                       : "no failures"));
  line("a save", fmt::format("blocks for {}, durable {} later; recovery {}", format_duration(s.times.stall_s),
                             format_duration(s.times.persist_s), format_duration(s.times.recovery_s)));
  const std::string optima = has_failures
                                 ? fmt::format("Young {}, Daly {}, exact {}", format_duration(s.young_s),
                                               format_duration(s.daly_s), format_duration(s.exact_s))
                                 : "no optimum, as nothing fails";
  line("interval", fmt::format("{} of work between saves ({}); {}, floor {}", format_duration(s.interval_s),
                               name_of(s.bound_by), optima, format_duration(s.floor_s)));
  if (s.has_tiers()) {
    for (const TierPlan& tier : s.tiers)
      line("  " + tier.name, tier.interval.is_used
                                 ? fmt::format("every {} save{}, {} apart, for {} of the failures",
                                               tier.interval.every, tier.interval.every == 1 ? "" : "s",
                                               format_duration(s.period_of(tier)), percent(s.share_of(tier)))
                                 : std::string("not worth it"));
  }
  line("efficiency",
       fmt::format("{}{}; ETTR {}{}", percent(plan.efficiency), plan.is_viable ? "" : ", NOT VIABLE",
                   percent(plan.ettr.value), plan.ettr.is_in_domain ? "" : " (out of its domain)"));
  line("waste",
       fmt::format("stall {}, lost work {}, recovery {}, persist lag {}, slowdown {}",
                   percent(plan.waste.stall), percent(plan.waste.lost_work), percent(plan.waste.recovery),
                   percent(plan.waste.persist_lag), percent(plan.waste.slowdown)));
  line("in all",
       fmt::format("{:.4g} days: {:.1f} failures, {:.0f} accelerator-hours lost{}", job.days, plan.failures,
                   plan.lost_gpu_hours, plan.lost_usd ? " (" + usd(*plan.lost_usd) + ")" : ""));
  line("a failure", fmt::format("loses {} on average, {} at most", format_duration(s.mean_lost_s()),
                                format_duration(s.max_lost_s())));
  if (plan.storage_bytes)
    line("storage",
         fmt::format("{}{}", gigabytes(*plan.storage_bytes),
                     plan.storage_usd_per_month ? ", " + usd(*plan.storage_usd_per_month) + " a month" : ""));
  std::string fits, not_fits;
  for (const NoticeFit& n : plan.notices)
    (n.fits ? fits : not_fits) += fmt::format(" {} ({:.0f}s)", n.name, n.window_s);
  if (!plan.notices.empty())
    line("notices", fmt::format("an emergency save needs {}; fits:{}; does not fit:{}",
                                format_duration(plan.notices.front().needs_s), fits.empty() ? " none" : fits,
                                not_fits.empty() ? " none" : not_fits));
  for (const Sensitivity& one : plan.sensitivity)
    line(&one == &plan.sensitivity.front() ? "to improve" : "",
         fmt::format("{} x {:g}: {:+.2f} points", one.parameter, one.factor, 100 * one.efficiency_gain));
  for (const PlanWarning& w : plan.warnings) line("warning", fmt::format("{} [{}]", w.text, w.code));
  return out;
}

}  // namespace unbroken
