#pragma once
// The flags of `simulate` alone, and the threads that its seeds run on.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "planner/simulator/simulate.h"

namespace unbroken {

struct SimulationRun {
  Simulation simulation;
  SimulationResult result;
  double elapsed_s = 0;
};

class SimulateFlags {
 public:
  explicit SimulateFlags(CLI::App& app);
  SimulateFlags(const SimulateFlags&) = delete;
  SimulateFlags& operator=(const SimulateFlags&) = delete;

  /// Errors: bad_argument naming the flag; those of reading the trace; unavailable where there are no
  /// threads.
  Result<SimulationRun> run(const JobInputs& job, const SavePlan& saves) const;

 private:
  Result<FailureLaw> law() const;
  Result<Stragglers> stragglers() const;
  Result<std::optional<FirstSave>> first(const SavePlan& saves) const;

  std::string seeds_ = "20", seed_ = "1", threads_ = "1", law_ = "exponential";
  std::string shape_, trace_, correlated_ = "0";
  // Empty: not said.
  std::string stragglers_, slowdown_, lasts_, slow_writes_, slow_factor_, first_save_, first_stall_;
};

}  // namespace unbroken
