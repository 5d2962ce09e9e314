#include "cli/plan_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/plan_flags.h"
#include "cli/simulate_flags.h"
#include "os/user/user_file.h"
#include "planner/chart.h"
#include "planner/plan.h"

namespace unbroken {

namespace {

Result<> list_presets(const PlanFlags& flags) {
  if (flags.is_json) return print_json(presets_json());
  return print(presets_text());
}

Result<> check_chart(const std::string& path) {
  if (path.empty() || path.ends_with(".svg") || path.ends_with(".html")) return Done{};
  return Error(Code::bad_argument, fmt::format("--chart: \"{}\" ends neither in .svg nor in .html", path));
}

Result<> write_chart(const std::string& path, const Plan& plan,
                     const std::optional<ChartPoint>& simulated = {}) {
  if (path.empty()) return Done{};
  const bool is_html = path.ends_with(".html");
  auto written = write_user_file(path, is_html ? chart_html(plan, simulated) : chart_svg(plan, simulated));
  if (written.is(Code::not_found)) written = Error(Code::bad_argument, written.error().what());
  if (!written.ok()) return std::move(written).error().with("--chart");
  fmt::print(stderr, "chart written to {}\n", path);
  return Done{};
}

Result<> plan_body(const PlanFlags& flags) {
  if (flags.lists_presets) return list_presets(flags);
  UNBROKEN_DO(check_chart(flags.chart));
  UNBROKEN_TRY(const JobInputs job, flags.job());
  UNBROKEN_TRY(const Plan plan, make_plan(job));
  UNBROKEN_DO(write_chart(flags.chart, plan));
  if (flags.is_json) return print_json(to_json(plan));
  return print(plan_text(plan));
}

Result<> simulate_body(const PlanFlags& flags, const SimulateFlags& how) {
  if (flags.lists_presets) return list_presets(flags);
  UNBROKEN_DO(check_chart(flags.chart));
  UNBROKEN_TRY(const JobInputs job, flags.job());
  UNBROKEN_TRY(const Plan plan, make_plan(job));
  UNBROKEN_TRY(const SimulationRun run, how.run(job, plan.saves));
  const Estimate& e = run.result.efficiency;
  UNBROKEN_DO(write_chart(flags.chart, plan, ChartPoint{1 - e.mean, 1 - e.high, 1 - e.low}));
  if (flags.is_json) {
    Json json = to_json(run.simulation, run.result);
    json["elapsed_s"] = run.elapsed_s;
    return print_json(json);
  }
  say(fmt::format("took {:.2f} s", run.elapsed_s));
  return print(simulation_text(run.simulation, run.result));
}

}  // namespace

int plan_command(int argc, char** argv) {
  CLI::App app("What to expect of a job: interval, efficiency, money, storage", "unbroken plan");
  PlanFlags flags(app);
  return run_command(app, argc, argv, [&]() -> Result<int> {
    UNBROKEN_DO(plan_body(flags));
    return 0;
  });
}

int simulate_command(int argc, char** argv) {
  CLI::App app("Runs a job event by event, many times over", "unbroken simulate");
  PlanFlags flags(app);
  SimulateFlags how(app);
  return run_command(app, argc, argv, [&]() -> Result<int> {
    UNBROKEN_DO(simulate_body(flags, how));
    return 0;
  });
}

}  // namespace unbroken
