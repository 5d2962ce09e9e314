#pragma once
// Scenarios that are drawn from a seed, and the exhaustive ones.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace unbroken::toy {

/// Keep every event as text: for a person who looks at one seed.
extern bool is_traced;

struct Outcome {
  std::string failure;     ///< empty: nothing went wrong
  std::uint64_t hash = 0;  ///< equal for equal seeds
  std::uint64_t events = 0, acknowledged = 0, restored = 0;
  std::string trace;  ///< one line an event, where `is_traced`
};

struct Scenario {
  std::string_view name;
  Outcome (*run)(std::uint64_t seed);
};
/// Lives that are killed, paused and superseded; power lost; a loader beside them; storage that fails.
const std::vector<Scenario>& scenarios();

struct Swept {
  std::string failure;
  std::uint64_t workloads = 0, crashes = 0;
  bool is_complete = true;  ///< no instant had more outcomes than were looked at
};
/// Every workload of up to three saves and loads on a run that is new or has two checkpoints: a crash at
/// every storage call, every outcome of power loss there up to `states_max`; equal disks under equal promises
/// are looked at once. `part` of `parts` takes its share of the disks.
Swept sweep(std::size_t states_max, std::size_t part = 0, std::size_t parts = 1);

}  // namespace unbroken::toy
