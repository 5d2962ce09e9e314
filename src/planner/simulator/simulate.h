#pragma once
// A whole job, event by event: work, saves that block and then persist, interruptions of single nodes and of
// groups, recoveries that fail themselves, notices, retention. It begins with a recovery and ends after so
// many days; the work of its last stretch counts. Every second belongs to exactly one of work kept, stall,
// slowdown, work lost, work that was not durable yet, and recovery.
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "planner/inputs.h"
#include "planner/plan.h"
#include "planner/simulator/failures.h"

namespace unbroken {

/// Nodes that do not fail but are slow: all others wait for them.
struct Stragglers {
  double per_1000_node_days = 0;  ///< nodes that become slow
  double slowdown = 0.3;          ///< share of the job's speed that is lost while there is one; [0, 1)
  double lasts_s = 3600;          ///< until it is found and replaced
  double write_share = 0;         ///< of the saves, those in which one writer is slow; [0, 1]
  double write_factor = 5;        ///< and how many times as long such a save persists; >= 1
  bool is_any() const { return per_1000_node_days > 0 || write_share > 0; }
};

/// Where the first completed step of each life is saved, as a run does it. The formulas know of no such save.
struct FirstSave {
  double work_s = 0;   ///< the step
  double stall_s = 0;  ///< of this save: memory is touched for the first time
};

struct Simulation {
  JobInputs job;
  SavePlan saves;
  FailureLaw law;
  Stragglers stragglers = {};
  std::optional<FirstSave> first = {};
};

/// What one seed came to.
struct SeedResult {
  double efficiency = 0;
  Waste waste;
  double lost_gpu_hours = 0;
  double failures = 0;
  double group_failures = 0;
  double saves = 0;          ///< taken
  double saves_skipped = 0;  ///< fell due while too many persisted; only where the interval was asked for
  double stored_max = 0;     ///< checkpoints at once: kept and in flight
};

/// Pure: the same seed gives the same result everywhere.   Threads: any.
SeedResult simulate_seed(const Simulation& simulation, std::uint64_t seed);

/// Mean of n seeds, its standard error and 95 % between (Student's t).
struct Estimate {
  double mean = 0;
  double standard_error = 0;
  double low = 0, high = 0;
};
Estimate estimate_of(const std::vector<double>& values);

struct SimulationResult {
  std::size_t seeds = 0;
  double simulated_s = 0;  ///< of each
  Estimate efficiency, failures, lost_gpu_hours;
  Waste waste;
  double group_failures = 0, saves = 0, saves_skipped = 0, stored_max = 0;
};

/// Runs `work(0)` to `work(count - 1)`, in any order, and returns after the last.
using ForEach = std::function<void(std::size_t count, const std::function<void(std::size_t)>& work)>;

/// Seeds first_seed, first_seed + 1, ... The result does not depend on how `for_each` spreads them.
SimulationResult simulate(const Simulation& simulation, std::uint64_t first_seed, std::size_t seeds,
                          const ForEach& for_each);

/// What a reader of the result has to know.
std::vector<PlanWarning> warnings_of(const Simulation& simulation);
/// Without `elapsed_s`, the one key that differs between two runs of the same seed.
Json to_json(const Simulation& simulation, const SimulationResult& result);
std::string simulation_text(const Simulation& simulation, const SimulationResult& result);

/// Reads a trace, one life of the job a line: under the header `time_s` when it ended, sorted, seconds from
/// the start of the job; and where there are such columns `recovery_s` and `interval_s`, of which a cell may
/// be empty. Errors: bad_argument (no such column, not a number, negative, not sorted), naming the line.
Result<std::vector<TracedLife>> parse_trace(std::string_view csv);

}  // namespace unbroken
