#include "cadence/explain.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace unbroken {

namespace {

std::string why(const CadencePlan& plan) {
  std::string optimum = "unknown before a save was measured";
  if (plan.saves > 0 && !std::isfinite(plan.exact_s)) optimum = "never, as no failures are expected";
  if (std::isfinite(plan.exact_s))
    optimum = fmt::format("M (1 + W0(-exp(-(1 + d/M)))) = {} with d = {} a save and M = {}",
                          format_duration(plan.exact_s), format_duration(plan.stall_s),
                          format_duration(plan.mtti_s));
  switch (plan.bound_by) {
    case BoundBy::optimum:
      return optimum;
    case BoundBy::floor:
      return fmt::format("the floor: a save takes {} to become durable; the optimum is {}",
                         format_duration(plan.persist_s), optimum);
    case BoundBy::rpo:
      return fmt::format("rpo: what it leaves after a stall of {} and {} until durable; the optimum is {}",
                         format_duration(plan.stall_s), format_duration(plan.persist_s), optimum);
    case BoundBy::given:
      return fmt::format("given; the optimum is {}", optimum);
    case BoundBy::no_failures:
      if (plan.saves == 0) return "no save was measured yet";
      return fmt::format("{}, so at least this often; the optimum is {}; a save costs {}",
                         plan.failures > 0 ? "too little is known of failures" : "no failure yet", optimum,
                         format_duration(plan.stall_s));
    case BoundBy::every_min:
      return fmt::format("every_min; the optimum is {}", optimum);
    case BoundBy::every_max:
      return fmt::format("every_max; the optimum is {}", optimum);
  }
  return optimum;
}

/// As a rate where that is one of nodes that are usual, else as the time that somebody may have said.
std::string prior_text(double per_1000_node_days) {
  constexpr double kUsual = 100, kSecondsIn1000Days = 86.4e6;
  if (per_1000_node_days < kUsual) return fmt::format("{:.3g} per 1,000 node-days", per_1000_node_days);
  return fmt::format("one every {} of a node", format_duration(kSecondsIn1000Days / per_1000_node_days));
}

std::string range_text(const Cadence::Range& range) {
  if (!std::isfinite(range.high_s))
    return fmt::format("above {}, no upper bound", format_duration(range.low_s));
  return fmt::format("between {} and {}", format_duration(range.low_s), format_duration(range.high_s));
}

}  // namespace

std::string explain_text(const CadencePlan& plan, const Cadence::Range& mtti_ci95) {
  std::string belief = "no failures expected";
  if (std::isfinite(plan.mtti_s))
    belief = fmt::format(
        "M {} from {:.0f} failure{} that lost work in {:.3g} node-days and a prior of {}{}, 95 % {}",
        format_duration(plan.mtti_s), plan.failures, plan.failures == 1 ? "" : "s", plan.node_days,
        prior_text(plan.prior_per_1000_node_days),
        plan.prior_node_days > 0 ? fmt::format(" that counts as {:.3g} node-days", plan.prior_node_days) : "",
        range_text(mtti_ci95));
  std::string text = fmt::format("every {}: {}{}{}; {}; efficiency {:.2f} % with a recovery of {}{}",
                                 format_duration(plan.interval_s), why(plan), plan.note.empty() ? "" : ", ",
                                 plan.note, belief, 100 * plan.efficiency, format_duration(plan.recovery_s),
                                 plan.recoveries > 0 ? "" : ", assumed as none was measured");
  if (!plan.broken_promise.empty()) text += "; " + plan.broken_promise;
  if (plan.breaks > 0)
    text += fmt::format("; rpo was not kept {} time{} in this life: up to {} would have been lost",
                        plan.breaks, plan.breaks == 1 ? "" : "s", format_duration(plan.exposed_s));
  return text;
}

Json explain_json(const CadencePlan& plan, const Cadence::Range& mtti_ci95) {
  return {{"interval_s", json_number(plan.interval_s)},
          {"stall_s", json_number(plan.stall_s)},
          {"persist_s", json_number(plan.persist_s)},
          {"mtti_s", json_number(plan.mtti_s)},
          {"mtti_ci95_s", Json::array({json_number(mtti_ci95.low_s), json_number(mtti_ci95.high_s)})},
          {"failures", json_number(plan.failures)},
          {"node_days", json_number(plan.node_days)},
          {"prior", {{"failures_per_1000_node_days", json_number(plan.prior_per_1000_node_days)}}},
          {"recovery_s", json_number(plan.recovery_s)},
          {"floor_s", json_number(plan.floor_s)},
          {"bound_by", std::string(name_of(plan.bound_by))},
          {"efficiency", json_number(plan.efficiency)},
          {"promise_breaks", plan.breaks},
          {"exposed_s", json_number(plan.exposed_s)},
          {"text", explain_text(plan, mtti_ci95)}};
}

}  // namespace unbroken
