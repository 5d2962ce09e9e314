#include <gtest/gtest.h>

#include "base/mutant.h"
#include "scenarios.h"

namespace unbroken::toy {
namespace {

// failure: petuum/adaptdl#70, mosaicml/composer#3376, KempnerInstitute/KempnerForge#102
// failure: verl-project/verl#4638
TEST(SimulatedRun, KeepsItsPromisesOnManySeeds) {
  for (const Scenario& scenario : scenarios()) {
    std::uint64_t acknowledged = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      const Outcome outcome = scenario.run(seed);
      ASSERT_EQ(outcome.failure, "") << scenario.name << " seed " << seed;
      acknowledged += outcome.acknowledged;
    }
    EXPECT_GT(acknowledged, 20u) << scenario.name << " saves nothing, so it shows nothing";
  }
}

TEST(SimulatedRun, IsTheSameFromTheSameSeed) {
  for (const Scenario& scenario : scenarios())
    for (const std::uint64_t seed : {3u, 4u})
      EXPECT_EQ(scenario.run(seed).hash, scenario.run(seed).hash) << scenario.name;
}

#ifdef UNBROKEN_WITH_MUTANTS

/// A planted fault and the scenario that has to find it.
struct Planted {
  const char* mutant;
  std::string_view scenario;
};

class Mutant : public testing::TestWithParam<Planted> {
 protected:
  ~Mutant() override { active_mutant = {}; }
};

// failure: mosaicml/composer#3376
TEST_P(Mutant, Dies) {
  active_mutant = GetParam().mutant;
  for (const Scenario& scenario : scenarios()) {
    if (scenario.name != GetParam().scenario) continue;
    for (std::uint64_t seed = 1; seed <= 5000; ++seed)
      if (!scenario.run(seed).failure.empty()) return;
  }
  FAIL() << "the planted fault was not found";
}

INSTANTIATE_TEST_SUITE_P(
    Simulated, Mutant,
    testing::Values(Planted{"no_dir_sync", "killed_lives"}, Planted{"rename_instead_of_link", "zombies"},
                    Planted{"receipt_before_fsync", "killed_lives"},
                    Planted{"fence_does_not_wait", "killed_lives"},
                    Planted{"gc_without_sync", "killed_lives"}, Planted{"age_based_orphans", "zombies"},
                    Planted{"no_fence", "zombies"}, Planted{"hint_before_sync", "killed_lives"},
                    Planted{"hint_trusted", "lost_tail"}, Planted{"no_reread_after_sync", "server_restarts"},
                    Planted{"resume_unprotected", "roll_back"}, Planted{"verified_min_zero", "killed_lives"},
                    Planted{"unnamed_pins", "pinned_loaders"}, Planted{"stale_summary", "folds"},
                    Planted{"summary_before_fold", "folds"}),
    [](const auto& tested) { return std::string(tested.param.mutant); });

#endif

}  // namespace
}  // namespace unbroken::toy
