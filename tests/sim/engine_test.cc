#include <gtest/gtest.h>

#include "base/mutant.h"
#include "scenarios.h"

namespace unbroken::toy {
namespace {

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

class Mutant : public testing::TestWithParam<const char*> {
 protected:
  ~Mutant() override { active_mutant = {}; }
};

/// Seeds of every scenario, then the sweep, until the planted fault shows.
TEST_P(Mutant, Dies) {
  active_mutant = GetParam();
  for (std::uint64_t seed = 1; seed <= 400; ++seed)
    for (const Scenario& scenario : scenarios())
      if (!scenario.run(seed).failure.empty()) return;
  EXPECT_NE(sweep(16).failure, "") << "the planted fault was not found";
}

INSTANTIATE_TEST_SUITE_P(Simulated, Mutant,
                         testing::Values("no_dir_sync", "rename_instead_of_link", "receipt_before_fsync",
                                         "gc_without_sync", "age_based_orphans", "no_fence",
                                         "hint_before_sync", "no_reread_after_sync", "resume_unprotected",
                                         "verified_min_zero"),
                         [](const auto& param) { return std::string(param.param); });

#endif

}  // namespace
}  // namespace unbroken::toy
