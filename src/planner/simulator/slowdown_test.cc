// Saves that slow the training while they persist: what the closed form and the simulator say of the same
// job.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/simulator/random.h"
#include "planner/simulator/simulate.h"
#include "planner/test_plan.h"

namespace unbroken {
namespace {

constexpr std::size_t kSeeds = 40;

/// Of failures and of saves there are enough; no more of them are simulated.
Simulation of(JobInputs job) {
  SavePlan saves = plan_saves(job).value();
  job.days = std::min(300 * job.mtti_s, 20'000 * saves.period_s) / 86400;
  return {job, std::move(saves), {}};
}

/// Made-up jobs: failures ten times as far apart as a save takes or a thousand times, up to four in flight.
class Drawn {
 public:
  explicit Drawn(std::uint64_t seed) : random_(seed) {
    job.in_flight = 1 + static_cast<std::uint32_t>(4 * random_.uniform());
    job.slowdown = std::min(between(0.05, 0.6), 0.9 / job.in_flight);
    job.mtti_s = between(3600, 100'000);
    job.recovery_s = job.mtti_s * between(0.003, 0.1);
    job.persist_s = job.mtti_s * between(0.001, 0.1);
    job.stall_s = job.persist_s / job.in_flight * between(0.001, 0.5);
  }

  void divide_into_tiers() {
    TierInput near, safe;
    near.name = "near", near.stall_s = job.stall_s / 2, near.persist_s = job.persist_s / 4;
    near.recovers = 0.4 + 0.5 * random_.uniform(), near.recovery_s = job.recovery_s / 2;
    safe.name = "safe", safe.stall_s = job.stall_s, safe.persist_s = job.persist_s;
    safe.recovery_s = job.recovery_s;
    job.tiers = {near, safe};
    job.slowdown = std::min(job.slowdown, 0.45 / job.in_flight);  // both at once leave some speed
  }

  double between(double low, double high) { return low * std::pow(high / low, random_.uniform()); }

  JobInputs job;

 private:
  SeededRandom random_;
};

/// By how much the two are apart beyond what chance does in three of a thousand cases: share of the
/// efficiency.
double apart(const Simulation& sim, const SimulationResult& result) {
  const double closed = sim.saves.efficiency();
  const double beyond = std::abs(result.efficiency.mean - closed) - 3 * result.efficiency.standard_error;
  return std::max(beyond, 0.0) / closed;
}

std::string shown(const Simulation& sim, const SimulationResult& result) {
  const JobInputs& job = sim.job;
  return fmt::format(
      "M {} stall {} persist {} recovery {} slowdown {} in flight {} interval {}: simulated {} +- {}, closed "
      "form {}; skipped {} for {} saves",
      job.mtti_s, job.stall_s, job.persist_s, job.recovery_s, job.slowdown, job.in_flight,
      job.interval_s.value_or(0), result.efficiency.mean, result.efficiency.standard_error,
      sim.saves.efficiency(), result.saves_skipped, result.saves);
}

TEST(Slowdown, FormulaAndSimulatorAgreeFromBelowTheFloorOn) {
  std::uint64_t seed = 0;
  for (const double floors : {0.3, 0.7, 1.001, 1.05, 1.5, 3.0, 10.0})
    for (int i = 0; i < 4; ++i) {
      JobInputs job = Drawn(++seed).job;
      job.interval_s = floors * plan_saves(job).value().floor_s;
      const Simulation sim = of(job);
      const SimulationResult result = simulate(sim, 1, kSeeds, one_by_one);
      EXPECT_LE(apart(sim, result), 0.002) << shown(sim, result);
      EXPECT_EQ(below_floor(sim.saves).has_value(), floors < 1);
      EXPECT_TRUE(floors >= 1 || result.saves_skipped > 0) << shown(sim, result);
      EXPECT_NEAR(sim.saves.efficiency() + sim.saves.waste().sum(), 1, 1e-9);
      EXPECT_NEAR(result.waste.slowdown, sim.saves.waste().slowdown, 0.01) << shown(sim, result);
    }
}

TEST(Slowdown, FormulaAndSimulatorAgreeWhereTheIntervalIsChosen) {
  for (std::uint64_t seed = 101; seed <= 116; ++seed) {
    JobInputs job = Drawn(seed).job;
    if (seed % 2 == 0) job.stall_s /= 100, job.slowdown /= 10;  // the floor binds
    const Simulation sim = of(job);
    const SimulationResult result = simulate(sim, 1, kSeeds, one_by_one);
    EXPECT_LE(apart(sim, result), 0.002) << shown(sim, result);
    EXPECT_EQ(result.saves_skipped, 0);
  }
}

TEST(Slowdown, FormulaAndSimulatorAgreeWithTiers) {
  std::uint64_t seed = 200;
  int agreed = 0;
  for (const double floors : {0.0, 1.02, 1.3, 3.0, 10.0})
    for (int i = 0; i < 6; ++i) {
      Drawn drawn(++seed);
      drawn.divide_into_tiers();
      JobInputs job = drawn.job;
      // Which turns are best depends on the interval, and the floor on the turns.
      for (int round = 0; round < 2 && floors > 0; ++round)
        job.interval_s = std::max(floors * plan_saves(job).value().floor_s, 1e-4 * job.mtti_s);
      const Simulation sim = of(job);
      if (below_floor(sim.saves)) continue;
      const SimulationResult result = simulate(sim, 1, kSeeds, one_by_one);
      EXPECT_LE(apart(sim, result), 0.01) << shown(sim, result);
      agreed += 1;
    }
  EXPECT_GE(agreed, 24);
}

TEST(Slowdown, AnIntervalIsWorkAndTheFloorThatOfTheSlowedTime) {
  // Durable 1200 s after the snapshot, of which 10 are the next stall: 1190 s at 0.7 of the speed.
  const Values job{{"mtti", "10h"},      {"stall", "10s"},    {"persist", "20min"},
                   {"recovery", "5min"}, {"slowdown", "0.3"}, {"interval", "840s"}};
  const Plan p = plan(job).value();
  EXPECT_NEAR(p.saves.floor_s, 833, 1e-9);
  EXPECT_FALSE(warns(p, "floor"));
  EXPECT_EQ(p.saves.interval_s, 840);
  EXPECT_NEAR(p.saves.period_s, 840 + 10 + 0.3 * 1200, 1e-6);
  EXPECT_NEAR(p.saves.max_lost_s(), p.saves.period_s + 1200, 1e-6);
  EXPECT_NEAR(p.efficiency, 0.662, 0.002);
}

TEST(Slowdown, CountsInAPromise) {
  for (std::uint64_t seed = 301; seed <= 320; ++seed) {
    JobInputs job = Drawn(seed).job;
    const double least_s = std::max(job.persist_s / job.in_flight, job.stall_s) + job.persist_s;
    job.rpo_s = least_s * 0.999;
    EXPECT_TRUE(plan_saves(job).is(Code::bad_argument));
    job.rpo_s = least_s * 1.02;
    const SavePlan saves = plan_saves(job).value();
    EXPECT_LE(saves.period_s + job.persist_s, job.rpo_s * (1 + 1e-9)) << seed;
    EXPECT_GT(saves.period_s + job.persist_s, least_s * (1 - 1e-9)) << seed;
  }
}

TEST(Slowdown, StopsTheTrainingWhereWritesOfAllTiersTakeAllTheSpeed) {
  const Plan p = plan({{"mtti", "3h"}, {"slowdown", "0.9"}, {"days", "30"}},
                      {"near:stall=1s,persist=1min,recovers=0.8,recovery=1min",
                       "safe:stall=5s,persist=5min,recovery=5min"})
                     .value();
  const SimulationResult result = simulate({p.job, p.saves, {}}, 1, kSeeds, one_by_one);
  EXPECT_NEAR(result.efficiency.mean / p.efficiency, 1, 0.05);
  EXPECT_NEAR(result.efficiency.mean + result.waste.sum(), 1, 1e-9);
  EXPECT_GT(result.efficiency.mean, 0);
}

}  // namespace
}  // namespace unbroken
