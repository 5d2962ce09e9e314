// The simulator as a program: `./dev sim`. Runs seeds, or one seed again, or the exhaustive sweep.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/mutant.h"
#include "scenarios.h"

namespace {

using namespace unbroken::toy;

struct Options {
  std::uint64_t seed = 1, seeds = 1;
  std::string scenario, mutant;
  std::size_t states_max = 0, part = 0, parts = 1;
};

/// One seed; 1 in 20 twice, which must give the same history. Empty: nothing went wrong.
std::string try_seed(const Scenario& scenario, std::uint64_t seed, Outcome& outcome) {
  outcome = scenario.run(seed);
  if (!outcome.failure.empty()) return outcome.failure;
  if (seed % 20 == 0 && scenario.run(seed).hash != outcome.hash) return "the same seed gave another history";
  return {};
}

int run_seeds(const Options& options) {
  std::uint64_t passed = 0, failed = 0, events = 0, acknowledged = 0, restored = 0;
  for (std::uint64_t seed = options.seed; seed < options.seed + options.seeds; ++seed) {
    for (const Scenario& scenario : scenarios()) {
      if (!options.scenario.empty() && options.scenario != scenario.name) continue;
      Outcome outcome;
      const std::string failure = try_seed(scenario, seed, outcome);
      fmt::print("{}", outcome.trace);
      events += outcome.events, acknowledged += outcome.acknowledged, restored += outcome.restored;
      if (failure.empty()) {
        ++passed;
        continue;
      }
      ++failed;
      fmt::print("{}\n  again: ./dev sim --seed {} --scenario {}\n", failure, seed, scenario.name);
      if (failed >= 10) break;
    }
    if (failed >= 10) break;
  }
  fmt::print("{} events, {} saves acknowledged, {} lives begun\n", events, acknowledged, restored);
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

int run_sweep(const Options& options) {
  const Swept swept = sweep(options.states_max, options.part, options.parts);
  fmt::print("{} workloads, {} crashes looked at{}\n", swept.workloads, swept.crashes,
             swept.is_complete ? ", every outcome"
                               : fmt::format(", at most {} outcomes an instant", options.states_max));
  if (!swept.failure.empty()) fmt::print("{}\n", swept.failure);
  fmt::print("{} passed, {} failed\n", swept.failure.empty() ? swept.workloads : swept.workloads - 1,
             swept.failure.empty() ? 0 : 1);
  return swept.failure.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Simulated runs from a seed: crashes, power loss, zombies, failing storage."};
  app.add_option("--seed", options.seed, "first seed");
  app.add_option("--seeds", options.seeds, "how many");
  app.add_option("--scenario", options.scenario, "only this one");
  app.add_option("--sweep", options.states_max, "crash at every call, so many outcomes of power loss each");
  app.add_flag("--trace", is_traced, "print every event of the last seed");
  app.add_option("--part", options.part, "of the sweep, from 0");
  app.add_option("--parts", options.parts, "of the sweep");
  app.add_option("--mutant", options.mutant, "with this planted fault");
  CLI11_PARSE(app, argc, argv);
  if (!options.mutant.empty()) {
#ifdef UNBROKEN_WITH_MUTANTS
    unbroken::active_mutant = options.mutant;
#else
    fmt::print(stderr, "this build has no mutants: configure with -DUNBROKEN_MUTANTS=ON\n");
    return 78;
#endif
  }
  return options.states_max > 0 ? run_sweep(options) : run_seeds(options);
}
