#include "planner/simulator/simulate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "planner/test_plan.h"

namespace unbroken {
namespace {

void backwards(std::size_t count, const std::function<void(std::size_t)>& work) {
  for (std::size_t i = count; i-- > 0;) work(i);
}

Simulation of(const Settings& settings, FailureLaw law = {}) {
  const JobInputs job = job_inputs(settings).value();
  return {job, plan_saves(job).value(), std::move(law)};
}

Settings with(std::string_view preset, std::map<std::string, std::string, std::less<>> values,
              std::vector<std::string> tiers = {}) {
  return over_preset(preset, {std::move(values), std::move(tiers)}).value();
}

double errors_apart(const Simulation& sim, const SimulationResult& result) {
  return (result.efficiency.mean - sim.saves.efficiency()) / result.efficiency.standard_error;
}

TEST(Simulator, AgreesWithTheClosedFormOnEveryPreset) {
  for (const Preset& preset : presets()) {
    const Simulation sim = of(preset_settings(preset.name).value());
    const SimulationResult result = simulate(sim, 1, 200, one_by_one);
    EXPECT_LE(std::abs(errors_apart(sim, result)), 3)
        << preset.name << ": " << result.efficiency.mean << " +- " << result.efficiency.standard_error
        << ", closed form " << sim.saves.efficiency();
    RecordProperty(std::string(preset.name),
                   fmt::format("closed {:.6f} simulated {:.6f} +- {:.6f}, {:+.2f} standard errors",
                               sim.saves.efficiency(), result.efficiency.mean,
                               result.efficiency.standard_error, errors_apart(sim, result)));
  }
}

TEST(Simulator, AgreesWithTheClosedFormWhereASaveSlowsTheTraining) {
  // In the first stretch after a recovery nothing persists.
  for (const Values& values : {Values{{"mtti", "1006.5s"},
                                      {"recovery", "2.93s"},
                                      {"stall", "16.395s"},
                                      {"persist", "448.684s"},
                                      {"slowdown", "0.16"},
                                      {"interval", "500s"}},
                               Values{{"mtti", "3h"},
                                      {"recovery", "5min"},
                                      {"stall", "10s"},
                                      {"persist", "8min"},
                                      {"slowdown", "0.3"}}}) {
    const Simulation sim = of(with("", values));
    const SimulationResult result = simulate(sim, 1, 200, one_by_one);
    EXPECT_LE(std::abs(errors_apart(sim, result)), 3)
        << result.efficiency.mean << " +- " << result.efficiency.standard_error << ", closed form "
        << sim.saves.efficiency();
  }
}

TEST(Simulator, AgreesOnPartsOfTheWaste) {
  constexpr double tolerance = 2e-3;
  for (const char* slowdown : {"0", "0.2"}) {
    const Simulation sim = of(with("h100-100k-async", {{"slowdown", slowdown}}));
    const SimulationResult result = simulate(sim, 1, 100, one_by_one);
    const Waste expected = sim.saves.waste_at(sim.saves.interval_s);
    EXPECT_NEAR(result.waste.stall, expected.stall, tolerance);
    EXPECT_NEAR(result.waste.lost_work, expected.lost_work, tolerance);
    EXPECT_NEAR(result.waste.recovery, expected.recovery, tolerance);
    EXPECT_NEAR(result.waste.persist_lag, expected.persist_lag, tolerance);
    EXPECT_NEAR(result.waste.slowdown, expected.slowdown, tolerance);
    EXPECT_NEAR(result.efficiency.mean + result.waste.sum(), 1, 1e-9);
    EXPECT_NEAR(result.efficiency.mean, sim.saves.efficiency(), tolerance);
  }
}

/// Within 2 % of each and a tenth of a point.
void expect_parts(const Simulation& sim, const SimulationResult& result, const char* name) {
  const Waste expected = sim.saves.waste();
  for (double Waste::* part :
       {&Waste::stall, &Waste::lost_work, &Waste::recovery, &Waste::persist_lag, &Waste::slowdown})
    EXPECT_NEAR(result.waste.*part, expected.*part, 0.02 * expected.*part + 1e-3) << name;
}

struct Case {
  const char* name;
  Settings settings;
};

TEST(Simulator, AgreesWithTiersFlightAndNotices) {
  const std::vector<Case> cases{
      {"six in flight", with("h100-100k-async", {{"persist", "10min"}, {"in-flight", "6"}})},
      {"one in flight, at the floor", with("h100-100k-async", {{"persist", "10min"}})},
      {"shared bandwidth", with("h100-100k-async", {{"bandwidth", "1GB/s"}, {"in-flight", "4"}})},
      {"two tiers", with("", {{"mtti", "3h"}},
                         {"ram:stall=5s,recovers=0.75,recovery=1min", "disk:stall=2min,recovery=15min"})},
      {"two tiers, cheap one nearly free",
       with("", {{"mtti", "30min"}},
            {"ram:stall=1s,recovers=0.9,recovery=1min", "disk:stall=1min,recovery=10min"})},
      {"three tiers", with("", {{"mtti", "2h"}},
                           {"ram:stall=1s,persist=1s,recovers=0.6,recovery=30s",
                            "peer:stall=5s,persist=20s,recovers=0.9,recovery=1min",
                            "store:stall=30s,persist=5min,recovery=10min"})},
      {"two tiers, half with notice", with("", {{"mtti", "1h"}, {"notice-share", "0.5"}},
                                           {"ram:stall=2s,persist=1s,recovers=0.75,recovery=1min",
                                            "disk:stall=20s,persist=1min,recovery=5min"})},
      {"a slow safe tier, most with notice",
       with("", {{"mtti", "72998.5s"}, {"notice-share", "0.58"}, {"days", "200"}},
            {"ram:stall=285.747s,persist=66.2172s,recovers=0.684,recovery=1880.92s",
             "disk:stall=2857.4697s,persist=39306.85s,recovery=7523.66s"})},
      {"half with notice", with("", {{"mtti", "1h"},
                                     {"stall", "30s"},
                                     {"persist", "20s"},
                                     {"recovery", "2min"},
                                     {"notice-share", "0.5"}})}};
  for (const Case& c : cases) {
    const Simulation sim = of(c.settings);
    const SimulationResult result = simulate(sim, 1, 200, one_by_one);
    EXPECT_NEAR(result.efficiency.mean / sim.saves.efficiency(), 1, 0.02) << c.name;
    expect_parts(sim, result, c.name);
    RecordProperty(c.name, fmt::format("closed {:.6f} simulated {:.6f} +- {:.6f}, {:+.2f} standard errors",
                                       sim.saves.efficiency(), result.efficiency.mean,
                                       result.efficiency.standard_error, errors_apart(sim, result)));
  }
}

TEST(Simulator, AgreesOnNoticesOfTheLargestJobWithTwoTiers) {
  for (const char* share : {"0.1", "0.6", "0.98"}) {
    const Simulation sim = of(with("h100-100k-async", {{"notice-share", share}},
                                   {"memory:stall=1s,persist=2s,recovers=0.8,recovery=30s",
                                    "store:stall=5s,persist=1min,recovery=5min"}));
    const SimulationResult result = simulate(sim, 1, 100, one_by_one);
    EXPECT_NEAR(result.efficiency.mean / sim.saves.efficiency(), 1, 0.002) << share;
    EXPECT_NEAR(sim.saves.efficiency() + sim.saves.waste_at(sim.saves.interval_s).sum(), 1, 1e-9);
  }
}

TEST(Simulator, KeepsToTheFloorWithoutSkipping) {
  const Simulation at_floor = of(with("h100-100k-async", {{"persist", "10min"}}));
  EXPECT_EQ(at_floor.saves.bound_by, BoundBy::floor);
  EXPECT_EQ(simulate(at_floor, 1, 3, one_by_one).saves_skipped, 0);
  const Simulation below = of(with("h100-100k-async", {{"persist", "10min"}, {"interval", "100s"}}));
  EXPECT_GT(simulate(below, 1, 3, one_by_one).saves_skipped, 1000);
  const Simulation shared = of(with("h100-100k-async", {{"bandwidth", "1GB/s"}}));
  EXPECT_EQ(shared.saves.bound_by, BoundBy::floor);
  EXPECT_EQ(simulate(shared, 1, 3, one_by_one).saves_skipped, 0);
}

TEST(Simulator, ResultsDependOnTheSeedAlone) {
  const Simulation sim = of(with("rsc-1", {}), {.correlated = 0.1});
  const std::string once = to_json(sim, simulate(sim, 7, 12, one_by_one)).dump();
  EXPECT_EQ(once, to_json(sim, simulate(sim, 7, 12, backwards)).dump());
  EXPECT_NE(once, to_json(sim, simulate(sim, 8, 12, one_by_one)).dump());
  EXPECT_EQ(simulate_seed(sim, 8).efficiency, simulate_seed(sim, 8).efficiency);
}

TEST(Simulator, KeepsTheMeanUnderWeibull) {
  for (const double shape : {0.6, 1.0, 2.0}) {
    const Simulation sim = of(with("llama3", {}), {.kind = FailureLaw::Kind::weibull, .shape = shape});
    const SimulationResult result = simulate(sim, 1, 60, one_by_one);
    const double expected = 30 * 86400 / sim.job.mtti_s;
    EXPECT_NEAR(result.failures.mean, expected, 4 * result.failures.standard_error) << shape;
  }
  const FailureLaw grouped{.kind = FailureLaw::Kind::weibull, .shape = 0.6, .correlated = 0.5};
  const Simulation racks = of(with("llama3", {}), grouped);
  const SimulationResult result = simulate(racks, 1, 60, one_by_one);
  EXPECT_NEAR(result.failures.mean, 30 * 86400 / racks.job.mtti_s, 4 * result.failures.standard_error);
  // One node that never fails young: failures are more regular than exponential ones.
  const Simulation one = of(with("textbook-12h", {}), {.kind = FailureLaw::Kind::weibull, .shape = 3});
  const Simulation any = of(with("textbook-12h", {}));
  EXPECT_LT(simulate(one, 1, 100, one_by_one).failures.standard_error,
            0.7 * simulate(any, 1, 100, one_by_one).failures.standard_error);
}

TEST(Simulator, FollowsATraceAsItIs) {
  // 3 failures, none in the recovery: every number can be checked by hand.
  Settings settings = with(
      "", {{"mtti", "1d"}, {"stall", "10s"}, {"recovery", "100s"}, {"interval", "1000s"}, {"days", "1"}});
  Simulation sim = of(settings, {.kind = FailureLaw::Kind::trace, .trace = {{1200}, {5000}, {5000.5}}});
  const SeedResult r = simulate_seed(sim, 1);
  EXPECT_EQ(r.failures, 3);
  // From 100 s: 1000 of work, saved at 1110, 90 lost at 1200. From 1300: saved at 2310, 3320, 4330, 670 lost
  // at 5000.
  EXPECT_NEAR(r.waste.lost_work * 86400, 90 + 670, 1e-6);
  EXPECT_NEAR(r.waste.recovery * 86400, 100 + 100 + 100.5, 1e-6);
  EXPECT_EQ(r.saves, std::floor((86400 - 5100.5) / 1010) + 4);
}

TEST(Simulator, FollowsWhatATraceTellsOfEachLife) {
  Settings settings = with(
      "", {{"mtti", "1d"}, {"stall", "10s"}, {"recovery", "100s"}, {"interval", "1000s"}, {"days", "1"}});
  Simulation sim = of(settings, {.kind = FailureLaw::Kind::trace,
                                 .trace = {{.ends_s = 1200, .recovery_s = 50, .interval_s = 400},
                                           {.ends_s = 1500, .recovery_s = HUGE_VAL},
                                           {.ends_s = 4000, .interval_s = 500}}});
  // From 50 s: saved at 460 and 870, 330 lost at 1200. None in the second life. From 1600: saved at 2110,
  // 2620, 3130, 3640, 360 lost at 4000. Then as the job says.
  const SeedResult r = simulate_seed(sim, 1);
  EXPECT_NEAR(r.waste.lost_work * 86400, 330 + 360, 1e-6);
  EXPECT_NEAR(r.waste.recovery * 86400, 50 + 300 + 100 + 100, 1e-6);
  EXPECT_EQ(r.failures, 3);
  EXPECT_EQ(r.saves, 2 + 4 + std::floor((86400 - 4100) / 1010));
}

TEST(Simulator, WaitsForRoomWhereALifeSavedAnyway) {
  Settings settings = with("", {{"mtti", "1d"},
                                {"stall", "10s"},
                                {"persist", "300s"},
                                {"recovery", "100s"},
                                {"interval", "200s"},
                                {"days", "0.125"}});
  Simulation sim =
      of(settings, {.kind = FailureLaw::Kind::trace, .trace = {{.ends_s = 1200, .interval_s = 200}}});
  // From 100 s: saved at 310, durable at 610; due at 510, so taken when that is; of 620, durable at 920; due
  // at 820, taken then; of 930, still on its way at 1200.
  const SeedResult r = simulate_seed(sim, 1);
  EXPECT_NEAR(r.waste.lost_work * 10800, 1200 - 930, 1e-6);
  EXPECT_NEAR(r.waste.persist_lag * 10800, 920 - 620, 1e-6);
  // Then as asked for: due after 200 s of work, where each second one finds no room.
  EXPECT_NEAR(r.saves_skipped, (10800 - 1300) / 410.0, 1);
}

TEST(Simulator, SavesTheFirstStepOfEachLife) {
  Settings settings = with(
      "", {{"mtti", "1d"}, {"stall", "10s"}, {"recovery", "100s"}, {"interval", "1000s"}, {"days", "1"}});
  Simulation sim = of(settings, {.kind = FailureLaw::Kind::trace, .trace = {{1500}, {2000}}});
  sim.first = FirstSave{.work_s = 20, .stall_s = 30};
  // From 100 s: saved at 150 and 1160, 340 lost at 1500; from 1600: saved at 1650, 350 lost at 2000.
  const SeedResult r = simulate_seed(sim, 1);
  EXPECT_NEAR(r.waste.lost_work * 86400, 340 + 350, 1e-6);
  const double more = std::floor((86400 - 2150.0) / 1010);
  EXPECT_EQ(r.saves, 2 + 1 + 1 + more);
  EXPECT_NEAR(r.waste.stall * 86400, 3 * 30 + 10 * (1 + more), 1e-6);
}

TEST(Simulator, GivesEveryNodeAClockOfItsOwn) {
  // Nodes that live nearly equally long: each fails about once in every mean lifetime.
  constexpr std::uint32_t kNodes = 100000;
  const FailureLaw law{.kind = FailureLaw::Kind::weibull, .shape = 10};
  SeededRandom random(1);
  FailureSource source(law, 1, kNodes, random);
  std::vector<int> failures(kNodes);
  for (Failure f = source.next(); f.at_s < 3.0 * kNodes; f = source.next()) failures[f.node] += 1;
  EXPECT_EQ(std::count_if(failures.begin(), failures.end(), [](int n) { return n < 2 || n > 5; }), 0);
}

TEST(Simulator, LosesMoreWhenGroupsFail) {
  const Settings settings =
      with("", {{"mtti", "3h"}, {"gpus", "1024"}},
           {"ram:stall=5s,recovers=0.9,recovery=1min", "disk:stall=2min,recovery=15min"});
  const Simulation alone = of(settings), grouped = of(settings, {.correlated = 0.5});
  const SimulationResult a = simulate(alone, 1, 50, one_by_one), b = simulate(grouped, 1, 50, one_by_one);
  EXPECT_EQ(a.group_failures, 0);
  EXPECT_NEAR(b.group_failures / b.failures.mean, 0.5, 0.05);
  EXPECT_NEAR(b.failures.mean / a.failures.mean, 1, 0.1);
  EXPECT_LT(b.efficiency.mean, a.efficiency.mean - 0.01);
}

TEST(Simulator, KeepsNoMoreCheckpointsThanRetentionAllows) {
  const Simulation sim = of(with("h100-100k-async", {{"keep-last", "2"}, {"days", "1"}}));
  EXPECT_EQ(simulate(sim, 1, 2, one_by_one).stored_max, 3);
}

TEST(Simulator, CallsOnlyWhatWasOnItsWayPersistLag) {
  // Nothing persists, so nothing is lost to the lag: a disk's failure loses the work since its last turn.
  const Simulation sim = of(with(
      "", {{"mtti", "3h"}}, {"ram:stall=5s,recovers=0.75,recovery=1min", "disk:stall=2min,recovery=15min"}));
  const SimulationResult result = simulate(sim, 1, 20, one_by_one);
  EXPECT_EQ(result.waste.persist_lag, 0);
  EXPECT_GT(result.waste.lost_work, 0.01);
  const Simulation lags = of(with(
      "", {{"mtti", "2h"}},
      {"ram:stall=1s,persist=2s,recovers=0.6,recovery=30s", "store:stall=30s,persist=5min,recovery=10min"}));
  const Waste expected = lags.saves.waste_at(lags.saves.interval_s);
  const SimulationResult lagging = simulate(lags, 1, 100, one_by_one);
  EXPECT_NEAR(lagging.waste.persist_lag, expected.persist_lag, 5e-3);
  EXPECT_NEAR(lagging.waste.lost_work, expected.lost_work, 1e-2);
}

TEST(Simulator, SecondsSumUp) {
  for (const char* preset : {"h100-100k-sync", "rsc-2"}) {
    const Simulation sim = of(with(preset, {{"days", "3"}}));
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const SeedResult r = simulate_seed(sim, seed);
      EXPECT_NEAR(r.efficiency + r.waste.sum(), 1, 1e-9);
      for (const double part : {r.waste.stall, r.waste.lost_work, r.waste.recovery, r.waste.persist_lag})
        EXPECT_GE(part, 0);
    }
  }
}

TEST(Simulator, WaitsForASlowNode) {
  // No failures, no saves to speak of: what is lost is the share of the time with a slow node.
  Simulation sim =
      of(with("", {{"mtti", "inf"}, {"stall", "1ms"}, {"interval", "1h"}, {"gpus", "8000"}, {"days", "30"}}));
  sim.stragglers = {.per_1000_node_days = 1, .slowdown = 0.4, .lasts_s = 43200};
  const SimulationResult result = simulate(sim, 1, 100, one_by_one);
  // 1,000 nodes: one a day, for half a day each, so none is slow for a share e^(-1/2) of the time.
  const double slow = 1 - std::exp(-0.5);
  EXPECT_NEAR(result.waste.slowdown, 0.4 * slow, 0.01);
  EXPECT_NEAR(result.efficiency.mean + result.waste.sum(), 1, 1e-9);
}

TEST(Simulator, LosesMoreWhenOneWriterIsSlow) {
  const Settings settings = with("h100-100k-async", {{"in-flight", "8"}});
  const Simulation sim = of(settings);
  Simulation slow = sim;
  slow.stragglers = {.write_share = 0.5, .write_factor = 5};
  const SimulationResult a = simulate(sim, 1, 50, one_by_one), b = simulate(slow, 1, 50, one_by_one);
  EXPECT_EQ(a.failures.mean, b.failures.mean) << "the same failures";
  EXPECT_GT(b.waste.persist_lag, 1.3 * a.waste.persist_lag);
  EXPECT_LT(b.efficiency.mean, a.efficiency.mean);
  slow.stragglers = {.write_share = 1, .write_factor = 1};
  EXPECT_EQ(simulate(slow, 1, 5, one_by_one).efficiency.mean,
            simulate(sim, 1, 5, one_by_one).efficiency.mean);
}

TEST(Simulator, RunsWithoutFailures) {
  const Simulation sim = of(with("textbook-12h", {{"mtti", "inf"}}));
  const SimulationResult result = simulate(sim, 1, 2, one_by_one);
  EXPECT_EQ(result.failures.mean, 0);
  EXPECT_NEAR(result.efficiency.mean, 3600.0 / 3720, 1e-4);
}

TEST(Estimate, UsesStudentsT) {
  const Estimate e = estimate_of({1, 2, 3});
  EXPECT_NEAR(e.high - e.mean, 4.303 * e.standard_error, 1e-3 * e.standard_error);
  EXPECT_NEAR(estimate_of({1, 3}).high, 2 + 12.706, 1e-3);
  EXPECT_EQ(estimate_of({5}).low, 5);
}

TEST(Trace, RefusesWhatItCannotFollow) {
  const auto trace = parse_trace("node,time_s\r\na,1\r\nb,2.5\r\n").value();
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].ends_s, 1);
  EXPECT_EQ(trace[1].ends_s, 2.5);
  EXPECT_FALSE(trace[1].recovery_s || trace[1].interval_s);
  const auto lives = parse_trace("interval_s,time_s,recovery_s\n3,10,2\n,20,inf\n").value();
  EXPECT_EQ(lives[0].recovery_s, 2);
  EXPECT_EQ(lives[0].interval_s, 3);
  EXPECT_EQ(lives[1].recovery_s, HUGE_VAL);
  EXPECT_FALSE(lives[1].interval_s);
  EXPECT_TRUE(parse_trace("time_s\n").value().empty());
  EXPECT_EQ(parse_trace("\xEF\xBB\xBF\"time_s\"\r\n\"7\"\r\n").value().at(0).ends_s, 7) << "of a spreadsheet";
  EXPECT_LT(parse_trace("time_s\n" + std::string(100'000, '9') + "x\n").error().what().size(), 200U);
  for (const char* text : {"", "time\n1\n", "time_s\n2\n1\n", "time_s\n-1\n", "time_s\nx\n", "a,time_s\n1\n",
                           "time_s\nnan\n", "time_s\ninf\n", "time_s,recovery_s\n1,-1\n",
                           "time_s,interval_s\n1,0\n", "time_s,recovery_s\n1,nan\n"})
    EXPECT_TRUE(parse_trace(text).is(Code::bad_argument)) << text;
}

TEST(Trace, PassesOverNoColumnAndNoCell) {
  const std::vector<std::pair<const char*, const char*>> refusals{
      {"time_s,recovery\n1,2\n", "line 1: the column \"recovery\" is none of"},
      {"time_s,\n1,2\n", "line 1: the column \"\" is none of"},
      {"recovery_s\n1\n", "no column time_s"},
      {"time_s,time_s\n1,2\n", "line 1: the column \"time_s\" stands there twice"},
      {"time_s,recovery_s\n1,2\n3\n", "line 3: has 1 of the header's 2 cells"},
      {"time_s\n1,2\n", "line 2: has 2 of the header's 1 cells"}};
  for (const auto& [text, says] : refusals) {
    const auto trace = parse_trace(text);
    ASSERT_TRUE(trace.is(Code::bad_argument)) << text;
    EXPECT_NE(trace.error().what().find(says), std::string::npos) << trace.error().what();
  }
}

}  // namespace
}  // namespace unbroken
