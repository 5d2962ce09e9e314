// Intervals and turns of several tiers, within what the storage follows and what was promised.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "planner/simulator/random.h"
#include "planner/simulator/simulate.h"
#include "planner/test_plan.h"

namespace unbroken {
namespace {

const Tiers kRamAndDisk{"ram:stall=5s,recovers=0.75,recovery=1min", "disk:stall=2min,recovery=15min"};
const Tiers kSlowStore{"ram:stall=1s,persist=1s,recovers=0.9,recovery=1min",
                       "store:stall=5s,persist=30min,recovery=15min"};

SimulationResult simulated(const Plan& p) {
  return simulate({p.job, p.saves, {}}, 1, 200, one_by_one);
}

TEST(SavePlan, CountsTheSafestTierInAPromise) {
  const auto refused = plan({{"mtti", "3h"}, {"rpo", "10s"}}, kRamAndDisk);
  ASSERT_TRUE(refused.is(Code::bad_argument));
  for (const char* part : {"--rpo", "10.0s", "disk", "2m 0s", "floor"})
    EXPECT_NE(refused.error().what().find(part), std::string::npos) << refused.error().what();
  EXPECT_TRUE(plan({{"mtti", "3h"}, {"rpo", "2min"}}, kRamAndDisk).is(Code::bad_argument));
  const Tiers late{"ram:stall=5s,recovers=0.75", "disk:stall=1s,persist=10min"};
  EXPECT_TRUE(plan({{"mtti", "3h"}, {"rpo", "10min"}}, late).is(Code::bad_argument));
  const auto given = plan({{"mtti", "3h"}, {"rpo", "10min"}, {"interval", "9min"}}, kRamAndDisk);
  ASSERT_TRUE(given.is(Code::bad_argument));
  EXPECT_NE(given.error().what().find("--interval"), std::string::npos);
}

TEST(SavePlan, FindsTheBestPlanWithinAPromise) {
  const Plan best = plan({{"mtti", "3h"}, {"rpo", "10min"}}, kRamAndDisk).value();
  EXPECT_EQ(best.saves.bound_by, BoundBy::rpo);
  EXPECT_TRUE(warns(best, "rpo"));
  EXPECT_LE(best.saves.max_lost_s(), 600 + 1e-6);
  for (const char* interval : {"100s", "200s", "234s", "290s", "470s"}) {
    const auto given = plan({{"mtti", "3h"}, {"rpo", "10min"}, {"interval", interval}}, kRamAndDisk);
    if (!given.ok()) continue;
    EXPECT_LE(given.value().saves.max_lost_s(), 600 + 1e-6) << interval;
    EXPECT_GE(best.efficiency, given.value().efficiency - 1e-9) << interval;
  }
  EXPECT_GT(best.efficiency, 0.758);
  EXPECT_NEAR(best.efficiency + best.waste.sum(), 1, 1e-9);
  EXPECT_NEAR(simulated(best).efficiency.mean / best.efficiency, 1, 0.02);
}

TEST(SavePlan, CountsEveryStallInWhatItExpects) {
  // Every save is the disk's: 480 s of work and 120 s of stall, back by either tier.
  const Plan p = plan({{"mtti", "3h"}, {"rpo", "10min"}}, kRamAndDisk).value();
  EXPECT_NEAR(p.saves.period_s, 600, 1e-6);
  EXPECT_NEAR(p.saves.mean_lost_s(), 300, 1e-6);
  EXPECT_NEAR(p.ettr.value, p.efficiency, 0.02);
  EXPECT_NEAR(to_json(p)["tiers"][1]["period_s"].get<double>(), 600, 1e-6);
}

TEST(SavePlan, LosesNoWorkToAFailureWithANotice) {
  const Values alone{{"mtti", "12h"}, {"stall", "30s"}, {"recovery", "1min"}}, tiers{{"mtti", "12h"}};
  for (const bool has_tiers : {false, true}) {
    Values values = has_tiers ? tiers : alone;
    const Tiers kinds = has_tiers ? kRamAndDisk : Tiers{};
    values["notice"] = "5min";
    const auto with = [&](const char* share) {
      values["notice-share"] = share;
      return plan(values, kinds).value();
    };
    const Plan none = with("0"), most = with("0.9");
    ASSERT_TRUE(most.saves.is_notice_used);
    EXPECT_GT(most.ettr.value, none.ettr.value);
    EXPECT_NEAR(most.ettr.value, most.efficiency, 0.003);
    if (has_tiers) continue;
    values["interval"] = fmt::format("{}s", none.saves.interval_s);
    EXPECT_NEAR(with("0.9").saves.mean_lost_s(), 0.1 * none.saves.mean_lost_s(), 1e-6);
  }
}

TEST(SavePlan, CountsTheFailuresOfADroppedTierToTheNext) {
  const Plan p =
      plan({{"mtti", "3h"}}, {"a:stall=3s,recovers=0.6,recovery=600s", "b:stall=3s,recovery=500s"}).value();
  ASSERT_FALSE(p.saves.tiers[0].interval.is_used);
  EXPECT_EQ(to_json(p)["tiers"][0]["share"], 0.0);
  EXPECT_EQ(to_json(p)["tiers"][1]["share"], 1.0);
  EXPECT_NE(plan_text(p).find("for 100.00 % of the failures"), std::string::npos) << plan_text(p);
}

TEST(SavePlan, SaysThatTheLastTierTakesTheRest) {
  const Tiers tiers{"a:stall=5s,recovers=0.75", "b:stall=2min,recovers=0.9"};
  const Plan p = plan({{"mtti", "3h"}}, tiers).value();
  EXPECT_EQ(p.saves.tiers[1].times.share, 0.25);
  EXPECT_TRUE(warns(p, "last-tier"));
  EXPECT_FALSE(warns(plan({{"mtti", "3h"}}, kRamAndDisk).value(), "last-tier"));
}

TEST(SavePlan, HasNoUseForATierThatNoFailureNeeds) {
  for (const Values& more : {Values{}, Values{{"rpo", "2min"}}, Values{{"interval", "1min"}}}) {
    Values values = more;
    values["mtti"] = "3h";
    const Plan alone = plan(values, {"a:stall=1s,recovery=10s"}).value();
    const Plan p = plan(values, {"a:stall=1s,recovers=1,recovery=10s", "b:stall=10s"}).value();
    EXPECT_FALSE(p.saves.tiers[1].interval.is_used) << testing::PrintToString(more);
    EXPECT_NEAR(p.efficiency, alone.efficiency, 1e-6) << testing::PrintToString(more);
    EXPECT_LE(p.saves.max_lost_s(), p.job.rpo_s);
  }
}

TEST(SavePlan, StaysFiniteWhereAWriteNeverEnds) {
  const Plan p = plan({{"mtti", "0.0000287s"}, {"interval", "1s"}},
                      {"a:stall=12s,recovers=0.8,recovery=53s", "b:stall=95s,persist=4.69s,recovery=16s"})
                     .value();
  EXPECT_EQ(p.efficiency, 0);
  EXPECT_NEAR(p.waste.sum(), 1, 1e-9);
}

JobInputs random_two_tiers(std::uint64_t seed) {
  SeededRandom random(seed);
  const auto between = [&](double low, double high) { return low * std::pow(high / low, random.uniform()); };
  JobInputs job;
  job.mtti_s = between(1e3, 1e5);
  TierInput cheap, safe;
  cheap.name = "cheap", safe.name = "safe";
  cheap.stall_s = job.mtti_s * between(1e-5, 1e-3), safe.stall_s = job.mtti_s * between(3e-4, 2e-2);
  cheap.persist_s = cheap.stall_s * between(0.1, 10), safe.persist_s = safe.stall_s * between(0.1, 30);
  cheap.recovers = 0.3 + 0.67 * random.uniform();
  cheap.recovery_s = job.mtti_s * between(1e-3, 3e-2), safe.recovery_s = job.mtti_s * between(1e-2, 0.16);
  job.tiers = {cheap, safe};
  return job;
}

TEST(SavePlan, GainsNothingByAPromiseNorByADearerSave) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const JobInputs job = random_two_tiers(seed);
    const SavePlan best = plan_saves(job).value();
    for (const double share : {0.99, 0.9, 0.7}) {
      JobInputs promised = job;
      promised.rpo_s = share * best.max_lost_s();
      if (const auto held = plan_saves(promised); held.ok()) {
        EXPECT_LE(held.value().efficiency(), best.efficiency() + 1e-7) << seed << " rpo x " << share;
      }
    }
    for (std::size_t tier = 0; tier < 2; ++tier) {
      JobInputs cheaper = job;
      cheaper.tiers[tier].stall_s *= 0.8;
      EXPECT_GE(plan_saves(cheaper).value().efficiency(), best.efficiency() - 1e-7) << seed << " " << tier;
    }
  }
}

/// Cheap to dear, each surviving more.
JobInputs random_tiers(std::uint64_t seed, std::size_t count) {
  SeededRandom random(seed);
  const auto between = [&](double low, double high) { return low * std::pow(high / low, random.uniform()); };
  JobInputs job;
  job.mtti_s = between(1e4, 1e5);
  double stall_s = job.mtti_s * between(1e-5, 1e-4), recovers = 0;
  for (std::size_t i = 0; i < count; ++i) {
    TierInput tier;
    tier.name = fmt::format("t{}", i);
    tier.stall_s = stall_s, tier.persist_s = stall_s * between(0.1, 5);
    tier.recovers = recovers += (1 - recovers) * between(0.3, 0.8);
    tier.recovery_s = job.mtti_s * between(1e-3, 3e-2);
    job.tiers.push_back(tier);
    stall_s *= between(3, 12);
  }
  job.tiers.back().recovers = 1;
  return job;
}

TEST(SavePlan, HasNoBetterNeighbour) {
  for (const std::size_t count : {3U, 4U})
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      const SavePlan best = plan_saves(random_tiers(seed, count)).value();
      if (best.floor_s >= best.interval_s * 0.9) continue;
      std::vector<std::size_t> in_use;
      for (std::size_t i = 0; i < best.tiers.size(); ++i)
        if (best.tiers[i].interval.is_used) in_use.push_back(i);
      for (std::size_t low = 1; low < in_use.size(); ++low)
        for (const int more : {-2, -1, 1, 2})
          for (std::size_t end = low + 1; end <= in_use.size(); ++end) {
            // The turns of one tier changed, those of the safer ones kept in proportion or in number.
            SavePlan other = best;
            const auto every = [&](std::size_t i) -> std::uint64_t& {
              return other.tiers[in_use[i]].interval.every;
            };
            const auto turns = [&](std::size_t i) {
              return static_cast<std::int64_t>(best.tiers[in_use[i]].interval.every /
                                               best.tiers[in_use[i - 1]].interval.every);
            };
            if (turns(low) + more < 1) continue;
            for (std::size_t i = low; i < in_use.size(); ++i) {
              std::int64_t times = turns(i) + (i == low ? more : 0);
              if (i == end) times = std::max<std::int64_t>((times * turns(low) + 1) / (turns(low) + more), 1);
              every(i) = every(i - 1) * static_cast<std::uint64_t>(times);
            }
            for (double factor = 0.8; factor < 1.25; factor *= 1.01)
              EXPECT_LE(other.efficiency_at(factor * best.interval_s), best.efficiency() + 2e-6)
                  << count << " tiers, seed " << seed << ", tier " << low << " " << more;
          }
    }
}

TEST(SavePlan, KeepsACheapTierWhereAPromiseLeavesNoMoreThanTheFloor) {
  JobInputs job;
  job.mtti_s = 1063;
  job.in_flight = 2;
  TierInput memory, store;
  memory.name = "memory", memory.stall_s = 1, memory.persist_s = 2, memory.recovers = 0.8,
  memory.recovery_s = 30;
  store.name = "store", store.stall_s = 5, store.persist_s = 60, store.recovery_s = 300;
  job.tiers = {memory, store};
  // Every save one of both: 60/2 - 5 of work between, 5 for which it blocks, 60 until it is durable.
  for (const double rpo_s : {90.1, 91.0, 93.0, 94.0, 95.0, 100.0}) {
    job.rpo_s = rpo_s;
    job.tiers[0].stall_s = 1;
    const SavePlan cheap = plan_saves(job).value();
    EXPECT_TRUE(cheap.tiers[0].interval.is_used) << rpo_s;
    EXPECT_GE(cheap.interval_s, 25 - 1e-9) << rpo_s;
    job.tiers[0].stall_s = 4.9;
    EXPECT_GE(cheap.efficiency(), plan_saves(job).value().efficiency() - 1e-7) << rpo_s;
  }
}

TEST(SavePlan, CountsEveryStallBetweenTwoTurns) {
  // A failure may come at the very end of the safest tier's stall.
  const Plan p = plan({{"mtti", "3h"}, {"days", "1"}}, {"ram:stall=5s,recovers=0.75,recovery=1min",
                                                        "disk:stall=2min,persist=1min,recovery=15min"})
                     .value();
  const double every = static_cast<double>(p.saves.tiers[1].interval.every);
  const double turn_s = every * p.saves.interval_s + (every - 1) * 5 + 120;
  EXPECT_NEAR(p.saves.max_lost_s(), turn_s + 60, 1e-6);
}

TEST(SavePlan, AgreesWithTheSimulatorOnALongWrite) {
  for (const Values& more : {Values{}, Values{{"in-flight", "2"}}, Values{{"slowdown", "0.1"}}}) {
    Values values = more;
    values["mtti"] = "3h";
    const Plan p = plan(values, kSlowStore).value();
    const SimulationResult result = simulated(p);
    EXPECT_NEAR(result.efficiency.mean / p.efficiency, 1, 0.02) << testing::PrintToString(more);
    EXPECT_EQ(result.saves_skipped, 0);
  }
}

TEST(SavePlan, CountsASlowdownWithTiers) {
  const Tiers tiers{"ram:stall=1s,persist=5s,recovers=0.9,recovery=1min",
                    "store:stall=5s,persist=5min,recovery=10min"};
  const Plan quick = plan({{"mtti", "2h"}}, tiers).value();
  const Plan slow = plan({{"mtti", "2h"}, {"slowdown", "0.3"}}, tiers).value();
  EXPECT_EQ(quick.waste.slowdown, 0);
  EXPECT_GT(slow.waste.slowdown, 0.005);
  EXPECT_LT(slow.efficiency, quick.efficiency - 0.005);
  const SimulationResult result = simulated(slow);
  EXPECT_NEAR(result.efficiency.mean / slow.efficiency, 1, 0.02);
  EXPECT_NEAR(result.waste.slowdown, slow.waste.slowdown, 0.01);
}

TEST(SavePlan, JudgesAnIntervalBelowTheFloorByWhatIsDone) {
  // Due every 200 s while a save takes 300 s: each second one finds no room.
  const Values job{{"mtti", "3h"}, {"stall", "1s"}, {"persist", "5min"}, {"recovery", "1min"}};
  Values below = job, done = job;
  below["interval"] = "200s";
  done["interval"] = "400s";
  const Plan p = plan(below).value();
  EXPECT_TRUE(warns(p, "floor"));
  EXPECT_EQ(p.saves.bound_by, BoundBy::given);
  // But for the first of each life, which finds room at once.
  EXPECT_GT(p.efficiency, plan(done).value().efficiency);
  EXPECT_NEAR(p.efficiency, plan(done).value().efficiency, 2e-4);
  EXPECT_NEAR(p.saves.max_lost_s(), 400 + 1 + 300, 1e-9);
  const SimulationResult result = simulated(p);
  EXPECT_GT(result.saves_skipped, 0);
  EXPECT_NEAR(result.efficiency.mean, p.efficiency, 3 * result.efficiency.standard_error);
  below["rpo"] = "600s";
  EXPECT_TRUE(plan(below).is(Code::bad_argument));
}

TEST(SavePlan, PlansManyTiers) {
  Tiers tiers;
  for (int i = 0; i < 20; ++i)
    tiers.push_back(fmt::format("t{}:stall={}s,persist={}s,recovers={},recovery=1min", i, 1 << (i / 2),
                                1 << (i / 2), 1 - std::pow(0.5, i + 1)));
  for (const Values& more : {Values{}, Values{{"rpo", "10h"}}}) {
    Values values = more;
    values["mtti"] = "10h";
    const JobInputs job = job_of(values, tiers).value();
    const SavePlan saves = plan_saves(job).value();  // make_plan() makes one for each improvement too
    EXPECT_GT(saves.efficiency(), 0.5);
    EXPECT_LE(saves.max_lost_s(), job.rpo_s);
  }
}

TEST(SavePlan, RefusesMoreTiersThanAnyJobHas) {
  const auto tiers = [](std::size_t count) {
    Tiers out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(fmt::format("t{}:stall=1s,recovers=0.5", i));
    return out;
  };
  EXPECT_TRUE(job_of({}, tiers(kTiersMax)).ok());
  const auto refused = job_of({}, tiers(kTiersMax + 1));
  ASSERT_TRUE(refused.is(Code::bad_argument));
  EXPECT_EQ(refused.error().what(), "--tier: 65 tiers are too many: at most 64");
}

TEST(SavePlan, RefusesATierWhoseNameCannotBePrinted) {
  const auto refused = job_of({{"mtti", "3h"}}, {"a\x1b[31m\nb:stall=1s"});
  ASSERT_TRUE(refused.is(Code::bad_argument));
  EXPECT_EQ(refused.error().what(), "--tier: \"a\\x1b[31m\\x0ab:stall=1s\" holds what cannot be printed");
}

TEST(SavePlan, DropsNothingThatTiersSayBetter) {
  const std::vector<std::pair<Values, const char*>> beside{
      {{{"stall", "3s"}}, "--stall"},
      {{{"persist", "3s"}}, "--persist"},
      {{{"recovery", "3min"}}, "--recovery"},
      {{{"load", "3min"}}, "--load"},
      {{{"state", "1TB"}, {"bandwidth", "1GB/s"}}, "--bandwidth"},
      {{{"state", "1TB"}, {"writer-bandwidth", "1GB/s"}}, "--writer-bandwidth"}};
  for (const auto& [values, names] : beside) {
    const auto refused = plan(values, kRamAndDisk);
    ASSERT_TRUE(refused.is(Code::bad_argument)) << names;
    EXPECT_NE(refused.error().what().find(names), std::string::npos) << refused.error().what();
  }
  // A recovery stays for those that say none, and a preset's times give way.
  const Plan p = plan({{"mtti", "3h"}, {"recovery", "7min"}},
                      {"ram:stall=5s,recovers=0.75,recovery=1min", "disk:stall=2min"})
                     .value();
  EXPECT_EQ(p.saves.tiers[1].times.recovery_s, 420);
  EXPECT_TRUE(plan({}, kRamAndDisk, "h100-100k-async").ok());
  const Settings file{{{"mtti", "3h"}, {"state", "1TB"}, {"bandwidth", "1GB/s"}}, {}};
  EXPECT_TRUE(job_inputs(overlay(file, {{}, kRamAndDisk})).ok()) << "so does the rate of a file";
}

TEST(Plan, AsksForTheShareThatATierSurvives) {
  const auto refused = plan({{"mtti", "3h"}}, {"ram:stall=5s", "disk:stall=2min"});
  ASSERT_TRUE(refused.is(Code::bad_argument));
  EXPECT_NE(refused.error().what().find("--tier ram"), std::string::npos) << refused.error().what();
  EXPECT_NE(refused.error().what().find("recovers="), std::string::npos) << refused.error().what();
}

TEST(Plan, RefusesWhatStandsThereTwice) {
  const auto twice = plan({}, {"ram:stall=5s,recovers=0.5", "ram:stall=6s"});
  ASSERT_TRUE(twice.is(Code::bad_argument));
  EXPECT_NE(twice.error().what().find("\"ram\" stands there twice"), std::string::npos);
  const auto key = plan({}, {"ram:stall=5s,stall=6s"});
  ASSERT_TRUE(key.is(Code::bad_argument));
  EXPECT_NE(key.error().what().find("stall stands there twice"), std::string::npos);
}

TEST(Plan, NamesTheFlagThatIsOutOfRange) {
  const std::vector<std::pair<Values, const char*>> refusals{
      {{{"persist", "1e30s"}}, "--persist"},
      {{{"recovery", "1e30s"}}, "--recovery"},
      {{{"stall", "1e30s"}}, "--stall"},
      {{{"interval", "1e30s"}}, "--interval"},
      {{{"mtti", "1e-12s"}}, "--mtti"},
      {{{"node-mtbf", "1e-12s"}}, "--node-mtbf"},
      {{{"failures-per-1000-node-days", "1e30"}}, "--failures-per-1000-node-days"},
      {{{"state", "1TB"}, {"bandwidth", "1e-9B/s"}}, "--bandwidth"},
      {{{"gpu-hour-usd", "1e300"}}, "--gpu-hour-usd"},
      {{{"gb-month-usd", "1e300"}}, "--gb-month-usd"}};
  for (const auto& [more, names] : refusals) {
    Values values = more;
    values.emplace("stall", "5s");
    const auto refused = plan(values);
    ASSERT_TRUE(refused.is(Code::bad_argument)) << names;
    EXPECT_TRUE(refused.error().what().starts_with(names)) << refused.error().what();
  }
  const auto tier = plan({}, {"ram:stall=1e30s"});
  ASSERT_TRUE(tier.is(Code::bad_argument));
  EXPECT_TRUE(tier.error().what().starts_with("--tier ram")) << tier.error().what();
}

TEST(Plan, RefusesALongValueWithoutRepeatingIt) {
  const std::string longest(100'000, '9');
  const auto refused = plan({{"stall", longest}});
  ASSERT_TRUE(refused.is(Code::bad_argument));
  EXPECT_LT(refused.error().what().size(), 200U);
  const auto tier = plan({}, {"ram:stall=" + longest});
  ASSERT_TRUE(tier.is(Code::bad_argument));
  EXPECT_LT(tier.error().what().size(), 200U);
}

TEST(Plan, HasAPresetsFailuresGrowWithItsNodes) {
  for (const Preset& preset : presets()) {
    if (preset.name == "textbook-12h") continue;
    const Plan whole = plan({}, {}, preset.name).value();
    const std::string tenfold = fmt::format("{:.0f}", 10 * whole.job.gpus);
    EXPECT_NEAR(plan({{"gpus", tenfold}}, {}, preset.name).value().job.mtti_s, whole.job.mtti_s / 10, 1e-6)
        << preset.name;
  }
  EXPECT_NEAR(plan({}, {}, "llama3").value().job.mtti_s, 54 * 86400.0 / 419, 1e-6);
}

TEST(Plan, WarnsWhereAPresetsFailuresAreOfAnotherSize) {
  EXPECT_TRUE(warns(plan({{"gpus", "1024"}}, {}, "textbook-12h").value(), "preset-mtti"));
  for (const auto& [preset, values] : {std::pair<const char*, Values>{"textbook-12h", {}},
                                       {"textbook-12h", {{"gpus", "1024"}, {"mtti", "1d"}}},
                                       {"textbook-12h", {{"gpus", "1024"}, {"node-mtbf", "1y"}}},
                                       {"llama3", {{"gpus", "1024"}}}})
    EXPECT_FALSE(warns(plan(values, {}, preset).value(), "preset-mtti")) << preset;
}

TEST(Plan, NamesNothingAsAnImprovementThatIsNone) {
  for (const char* mtti : {"20min", "3h", "30h"})
    for (const Tiers& tiers : {kRamAndDisk, kSlowStore}) {
      const Plan p = plan({{"mtti", mtti}}, tiers).value();
      for (const Sensitivity& one : p.sensitivity) EXPECT_GE(one.efficiency_gain, 0) << one.parameter;
    }
}

}  // namespace
}  // namespace unbroken
