// Many seeds of a simulation put together, as JSON and as text.
#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "cadence/explain.h"
#include "planner/simulator/simulate.h"

namespace unbroken {

Estimate estimate_of(const std::vector<double>& values) {
  Estimate out;
  const double n = static_cast<double>(values.size());
  if (values.empty()) return out;
  for (const double v : values) out.mean += v / n;
  double squares = 0;
  for (const double v : values) squares += (v - out.mean) * (v - out.mean);
  out.low = out.high = out.mean;
  if (values.size() < 2) return out;
  out.standard_error = std::sqrt(squares / (n - 1) / n);
  // Student's t at 97.5 %, by Cornish and Fisher's expansion around the normal; one degree of freedom by
  // itself.
  const double z = 1.959963984540054, dof = n - 1;
  const double t = dof < 1.5   ? 12.7062
                   : dof < 2.5 ? 4.30265
                               : z + (z * z * z + z) / (4 * dof) +
                                     (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * dof * dof) +
                                     (3 * std::pow(z, 7) + 19 * std::pow(z, 5) + 17 * z * z * z - 15 * z) /
                                         (384 * dof * dof * dof);
  out.low = out.mean - t * out.standard_error;
  out.high = out.mean + t * out.standard_error;
  return out;
}

SimulationResult simulate(const Simulation& simulation, std::uint64_t first_seed, std::size_t seeds,
                          const ForEach& for_each) {
  std::vector<SeedResult> results(seeds);
  for_each(seeds, [&](std::size_t i) { results[i] = simulate_seed(simulation, first_seed + i); });
  SimulationResult out;
  out.seeds = seeds;
  out.simulated_s = simulation.job.days * 86400;
  std::vector<double> efficiency, failures, hours;
  const double n = static_cast<double>(seeds);
  for (const SeedResult& r :
       results) {  // in the order of the seeds: sums are the same for any number of threads
    efficiency.push_back(r.efficiency);
    failures.push_back(r.failures);
    hours.push_back(r.lost_gpu_hours);
    out.waste.stall += r.waste.stall / n;
    out.waste.lost_work += r.waste.lost_work / n;
    out.waste.recovery += r.waste.recovery / n;
    out.waste.persist_lag += r.waste.persist_lag / n;
    out.waste.slowdown += r.waste.slowdown / n;
    out.group_failures += r.group_failures / n;
    out.saves += r.saves / n;
    out.saves_skipped += r.saves_skipped / n;
    out.stored_max = std::max(out.stored_max, r.stored_max);
  }
  out.efficiency = estimate_of(efficiency);
  out.failures = estimate_of(failures);
  out.lost_gpu_hours = estimate_of(hours);
  return out;
}

namespace {

/// One seed alone says nothing of the spread.
Json to_json(const Estimate& e, std::size_t seeds) {
  if (seeds < 2) return {{"mean", e.mean}, {"stderr", nullptr}, {"ci95", nullptr}};
  return {{"mean", e.mean}, {"stderr", e.standard_error}, {"ci95", Json::array({e.low, e.high})}};
}

}  // namespace

std::vector<PlanWarning> warnings_of(const Simulation& simulation) {
  std::vector<PlanWarning> out;
  if (auto below = below_floor(simulation.saves)) out.push_back(std::move(*below));
  if (simulation.law.kind != FailureLaw::Kind::trace) return out;
  const std::vector<TracedLife>& trace = simulation.law.trace;
  const double days = simulation.job.days;
  const auto later = std::count_if(trace.begin(), trace.end(),
                                   [&](const TracedLife& life) { return life.ends_s > days * 86400; });
  if (later > 0)
    out.push_back({"trace-days",
                   fmt::format("{} of the {} lives in the trace end after --days {:g} and are not followed; "
                               "the last ends after {}",
                               later, trace.size(), days, format_duration(trace.back().ends_s))});
  out.push_back(
      {"trace-mtti", fmt::format("the closed form is that of one failure every {}, not of the trace",
                                 format_duration(simulation.job.mtti_s))});
  return out;
}

Json to_json(const Simulation& simulation, const SimulationResult& r) {
  const Waste& w = r.waste;
  const std::optional<double> state = simulation.job.state_bytes;
  const Stragglers& slow = simulation.stragglers;
  Json warnings = Json::array();
  for (const PlanWarning& warning : warnings_of(simulation))
    warnings.push_back({{"code", warning.code}, {"text", warning.text}});
  return {{"stragglers",
           {{"per_1000_node_days", slow.per_1000_node_days},
            {"slowdown", slow.slowdown},
            {"lasts_s", slow.lasts_s},
            {"write_share", slow.write_share},
            {"write_factor", slow.write_factor}}},
          {"first_save", simulation.first ? Json({{"work_s", simulation.first->work_s},
                                                  {"stall_s", simulation.first->stall_s}})
                                          : Json()},
          {"preset", simulation.job.preset.empty() ? Json() : Json(simulation.job.preset)},
          {"inputs", to_json(simulation.job)},
          {"interval_s", simulation.saves.interval_s},
          {"seeds", r.seeds},
          {"simulated_s", r.simulated_s},
          {"efficiency", to_json(r.efficiency, r.seeds)},
          {"ettr", to_json(r.efficiency, r.seeds)},  // nobody waits in a queue here
          {"failures", to_json(r.failures, r.seeds)},
          {"group_failures", r.group_failures},
          {"lost_gpu_hours", to_json(r.lost_gpu_hours, r.seeds)},
          {"waste",
           {{"stall", w.stall},
            {"lost_work", w.lost_work},
            {"recovery", w.recovery},
            {"persist_lag", w.persist_lag},
            {"slowdown", w.slowdown}}},
          {"warnings", warnings},
          {"saves", r.saves},
          {"saves_skipped", r.saves_skipped},
          {"storage",
           {{"checkpoints_max", r.stored_max}, {"bytes_max", state ? Json(*state * r.stored_max) : Json()}}},
          {"closed_form", {{"efficiency", simulation.saves.efficiency()}}}};
}

std::string simulation_text(const Simulation& simulation, const SimulationResult& r) {
  const auto percent = [](double x) { return fmt::format("{:.2f} %", 100 * x); };
  std::string out;
  out += fmt::format("simulated   {} of {} with {}, saves every {} of work\n",
                     counted(static_cast<double>(r.seeds), "seed"), format_duration(r.simulated_s),
                     counted(simulation.job.nodes, "node"), format_duration(simulation.saves.interval_s));
  const auto range = [&](const std::string& low, const std::string& high) {
    return r.seeds < 2 ? "one seed: no spread is known" : fmt::format("95 %: {} to {}", low, high);
  };
  out += fmt::format("efficiency  {} ({}); closed form {}\n", percent(r.efficiency.mean),
                     range(percent(r.efficiency.low), percent(r.efficiency.high)),
                     percent(simulation.saves.efficiency()));
  out += fmt::format("failures    {:.1f} a run ({}), {:.1f} of them of a whole group\n", r.failures.mean,
                     range(fmt::format("{:.1f}", r.failures.low), fmt::format("{:.1f}", r.failures.high)),
                     r.group_failures);
  out += fmt::format("waste       stall {}, lost work {}, recovery {}, persist lag {}, slowdown {}\n",
                     percent(r.waste.stall), percent(r.waste.lost_work), percent(r.waste.recovery),
                     percent(r.waste.persist_lag), percent(r.waste.slowdown));
  out += fmt::format(
      "lost        {:.0f} accelerator-hours a run ({})\n", r.lost_gpu_hours.mean,
      range(fmt::format("{:.0f}", r.lost_gpu_hours.low), fmt::format("{:.0f}", r.lost_gpu_hours.high)));
  const Stragglers& slow = simulation.stragglers;
  if (slow.is_any())
    out += fmt::format(
        "stragglers  {:.3g} per 1,000 node-days cost {} of the speed for {} each; {} of the saves persist "
        "{:.3g} "
        "times as long\n",
        slow.per_1000_node_days, percent(slow.slowdown), format_duration(slow.lasts_s),
        percent(slow.write_share), slow.write_factor);
  out += fmt::format("saves       {:.0f} a run, {:.0f} skipped because others persisted\n", r.saves,
                     r.saves_skipped);
  for (const PlanWarning& warning : warnings_of(simulation))
    out += fmt::format("warning     {} [{}]\n", warning.text, warning.code);
  return out;
}

}  // namespace unbroken
