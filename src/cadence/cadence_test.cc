#include "cadence/cadence.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "cadence/explain.h"
#include "cadence/formulas.h"

namespace unbroken {
namespace {

constexpr double kDay = 86400;

Cadence make(const CadenceOptions& options, std::span<const PastLife> history = {}) {
  return Cadence::create(options, history).value();
}

/// A run whose saves all cost the same, at work from time 0.
Cadence measured(const CadenceOptions& options, const SaveCost& cost, int saves = 5) {
  Cadence cadence = make(options);
  cadence.start(0, 0, 0);
  for (int i = 0; i < saves; ++i) cadence.on_cost(cost, 0);
  return cadence;
}

TEST(Cadence, SavesAtTheOptimumOfWhatItMeasured) {
  const Cadence cadence = measured({.mtti_s = 14400}, {.stall_s = 2, .persist_s = 10});
  EXPECT_EQ(cadence.plan().bound_by, BoundBy::optimum);
  EXPECT_NEAR(cadence.plan().mtti_s, 14400, 200);
  EXPECT_NEAR(cadence.plan().interval_s, exact_interval_s(2, 14400), 2);
}

TEST(Cadence, AsksForASaveOnceTheIntervalIsOver) {
  Cadence cadence = measured({.mtti_s = 14400}, {.stall_s = 2, .persist_s = 10});
  const double interval = cadence.plan().interval_s;
  cadence.on_save(1002);
  EXPECT_FALSE(cadence.should_save(1, 1000 + 2 + interval - 0.1));
  EXPECT_TRUE(cadence.should_save(2, 1000 + 2 + interval + 0.1));
}

TEST(Cadence, NeverWaitsForeverWithoutFailures) {
  EXPECT_EQ(make({}).plan().interval_s, 3600);
  const Cadence quiet = measured({.mtti_s = HUGE_VAL}, {.stall_s = 2, .persist_s = 10});
  EXPECT_EQ(quiet.plan().bound_by, BoundBy::no_failures);
  EXPECT_EQ(quiet.plan().interval_s, 3600);
  const Cadence promised = measured({.mtti_s = HUGE_VAL, .rpo_s = 600}, {.stall_s = 2, .persist_s = 10});
  EXPECT_EQ(promised.plan().bound_by, BoundBy::rpo);
  EXPECT_EQ(promised.plan().interval_s, 588);
  // The prior alone would say six hours.
  const Cadence alone = measured({}, {.stall_s = 10, .persist_s = 10});
  EXPECT_GT(alone.plan().exact_s, 3600);
  EXPECT_EQ(alone.plan().interval_s, 3600);
}

TEST(Cadence, SavesNoFasterThanTheStorageAndSaysSo) {
  const Cadence cadence = measured({.mtti_s = 3600}, {.stall_s = 0.5, .persist_s = 300});
  EXPECT_EQ(cadence.plan().bound_by, BoundBy::floor);
  EXPECT_EQ(cadence.plan().interval_s, 300) << "a save begins when the last one is there";
  EXPECT_TRUE(Cadence(cadence).take_news());
  EXPECT_NE(explain_text(cadence.plan(), cadence.mtti_ci95_s()).find("the floor"), std::string::npos);
  const Cadence wide = measured({.mtti_s = 3600, .in_flight = 8}, {.stall_s = 0.5, .persist_s = 300});
  EXPECT_EQ(wide.plan().bound_by, BoundBy::optimum);
}

TEST(Cadence, WaitsWhileAsManySavesPersistAsMay) {
  Cadence cadence = measured({.mtti_s = 3600}, {.stall_s = 0.5, .persist_s = 300});
  cadence.on_save(1000);
  EXPECT_FALSE(cadence.should_save(1, 1310, 1));
  EXPECT_TRUE(cadence.should_save(2, 1311, 0)) << "nothing was skipped, so it is due at once";
  Cadence wide = measured({.mtti_s = 3600, .in_flight = 2}, {.stall_s = 0.5, .persist_s = 300});
  wide.on_save(1000);
  EXPECT_TRUE(wide.should_save(1, 1310, 1));
}

TEST(Cadence, RemembersWhatEarlierLivesMeasured) {
  Cadence cadence = make({.mtti_s = 14400});
  const SaveCost costs[] = {{2, 10}, {2, 10}};
  const double recoveries_s[] = {40, 50};
  cadence.remember(costs, recoveries_s);
  cadence.start(700, 0, 5);
  EXPECT_EQ(cadence.plan().saves, 2u);
  EXPECT_EQ(cadence.plan().recovery_s, 45);
  EXPECT_NEAR(cadence.plan().interval_s, exact_interval_s(2, 14400), 3);
  EXPECT_EQ(cadence.next_save_step(700, 5), 701u) << "the speed is this life's own";
}

// failure: lucidrains/stylegan2-pytorch#238
TEST(Cadence, StaysShortAfterEarlyDeathsUntilThisLifeSavedTwice) {
  const PastLife early[] = {{.seconds = 100, .saves = 1}};
  Cadence cadence = make({.mtti_s = 14400}, early);
  const SaveCost costs[] = {{2, 10}, {2, 10}, {2, 10}};
  cadence.remember(costs, {});
  cadence.start(0, 0, 0);
  EXPECT_EQ(cadence.plan().interval_s, 50);
  cadence.on_cost({2, 10}, 10);
  EXPECT_EQ(cadence.plan().interval_s, 50);
  cadence.on_cost({2, 10}, 60);
  EXPECT_GT(cadence.plan().interval_s, 100);
}

TEST(Cadence, ComparesAGivenIntervalWithTheOptimum) {
  Cadence cadence = make({.mtti_s = 14400, .given_steps = 50});
  cadence.start(0, 0, 0);
  cadence.on_step(1, 3);
  cadence.on_cost({2, 10}, 5);
  EXPECT_EQ(cadence.plan().bound_by, BoundBy::given);
  EXPECT_EQ(cadence.plan().interval_s, 150);
  EXPECT_NEAR(cadence.plan().exact_s, exact_interval_s(2, cadence.plan().mtti_s), 1e-9);
  EXPECT_FALSE(cadence.take_news());
  EXPECT_EQ(measured({.mtti_s = 14400, .given_s = 600}, {2, 10}).plan().interval_s, 600);
}

TEST(Cadence, CountsTheTimeBeforeTheFirstStepAsAlive) {
  Cadence cadence = make({.mtti_s = kDay});
  cadence.start(0, 1000, 1000 + kDay / 2);
  EXPECT_EQ(cadence.plan().node_days, 0.5);
}

TEST(Cadence, KeepsItsBounds) {
  const SaveCost cost{.stall_s = 2, .persist_s = 10};
  EXPECT_EQ(measured({.mtti_s = 14400, .every_min_s = 600}, cost).plan().interval_s, 600);
  EXPECT_EQ(measured({.mtti_s = 14400, .every_max_s = 60}, cost).plan().interval_s, 60);
  EXPECT_EQ(measured({.mtti_s = 14400, .rpo_s = 120}, cost).plan().interval_s, 108);
  EXPECT_TRUE(Cadence::create({.every_min_s = 60, .every_max_s = 30}).is(Code::bad_argument));
  EXPECT_TRUE(Cadence::create({.every_min_s = HUGE_VAL}).is(Code::bad_argument));
  EXPECT_TRUE(Cadence::create({.rpo_s = 60, .every_min_s = 60}).is(Code::bad_argument));
  EXPECT_TRUE(Cadence::create({.mtti_s = -1}).is(Code::bad_argument));
  EXPECT_TRUE(Cadence::create({.mtti_s = std::nan("")}).is(Code::bad_argument));
  EXPECT_TRUE(Cadence::create({.rpo_s = 0}).is(Code::bad_argument));
}

TEST(Cadence, KeepsAPromiseAtTheBoundaryBeforeItBreaks) {
  Cadence cadence = measured({.mtti_s = 14400, .rpo_s = 120}, {.stall_s = 2, .persist_s = 10});
  for (std::uint64_t step = 1; step <= 6; ++step)
    EXPECT_FALSE(cadence.should_save(step, 14.0 * static_cast<double>(step))) << step;
  EXPECT_TRUE(cadence.should_save(7, 14.0 * 7));  // step 8 ends at 112 s, too late for 108
}

TEST(Cadence, RefusesTimesThatAreNoneAtAll) {
  for (const CadenceOptions& options :
       {CadenceOptions{.mtti_s = 1e-12}, {.rpo_s = 1e-10}, {.every_max_s = 1e-10}}) {
    const auto made = Cadence::create(options);
    ASSERT_TRUE(made.is(Code::bad_argument));
    EXPECT_NE(made.error().what().find("less than a nanosecond"), std::string::npos);
  }
  EXPECT_TRUE(Cadence::create({.mtti_s = 1e-9}).ok());
}

TEST(Cadence, RefusesAPromiseThatTheStorageCannotKeep) {
  const Cadence cadence = measured({.rpo_s = 120}, {.stall_s = 2, .persist_s = 90});
  EXPECT_NE(cadence.plan().broken_promise.find("2m"), std::string::npos) << cadence.plan().broken_promise;
  EXPECT_EQ(cadence.plan().bound_by, BoundBy::floor);
  EXPECT_EQ(cadence.plan().interval_s, 90);
}

TEST(Cadence, KeepsAPromiseWhateverAStepTakes) {
  Cadence cadence = measured({.mtti_s = 14400, .rpo_s = 120}, {.stall_s = 2, .persist_s = 10});
  double now_s = 0;
  std::uint64_t step = 0;
  const auto pass = [&](double seconds) { return cadence.should_save(++step, now_s += seconds); };
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(pass(10)) << i;
  EXPECT_TRUE(pass(10)) << "the next step ends after 110 s, and 108 s are left";
  cadence.on_save(now_s += 2);
  EXPECT_FALSE(pass(50));
  EXPECT_TRUE(pass(50)) << "a step takes five times as long now";
  cadence.on_save(now_s += 2);
  EXPECT_TRUE(cadence.plan().broken_promise.empty());
  pass(500);
  EXPECT_TRUE(cadence.plan().broken_promise.empty()) << "one slow step is nothing that lasts";
  EXPECT_TRUE(pass(500));
  EXPECT_NE(cadence.plan().broken_promise.find("whole steps"), std::string::npos)
      << cadence.plan().broken_promise;
  EXPECT_TRUE(cadence.take_news());
  EXPECT_TRUE(pass(500)) << "it does what it can";
  // The optimum, too, waits for the end of a step.
  Cadence close = measured({.mtti_s = 14400, .rpo_s = 255}, {.stall_s = 2, .persist_s = 1});
  for (int i = 1; i <= 3; ++i)
    EXPECT_EQ(close.should_save(static_cast<std::uint64_t>(i), 60.0 * i), false) << i;
  EXPECT_TRUE(close.should_save(4, 239)) << "due after 240 s, but then only at 299";
}

TEST(Cadence, RefusesAPromiseShorterThanARememberedStep) {
  const SaveCost costs[] = {{2, 10}, {2, 10}};
  Cadence cadence = make({.rpo_s = 60});
  cadence.remember(costs, {}, 40);
  EXPECT_TRUE(cadence.plan().broken_promise.empty());
  cadence.remember(costs, {}, 50);
  EXPECT_NE(cadence.plan().broken_promise.find("50.0s between saves"), std::string::npos)
      << cadence.plan().broken_promise;
}

TEST(Cadence, SaysWhatWasDoneToTheOptimum) {
  const auto text = [](const Cadence& cadence) {
    return explain_text(cadence.plan(), cadence.mtti_ci95_s());
  };
  const auto has = [&](const Cadence& cadence, const char* part) {
    return text(cadence).find(part) != std::string::npos;
  };
  const PastLife early[] = {{.seconds = 100, .saves = 1}};
  Cadence cut = make({.mtti_s = 14400}, early);
  cut.on_cost({2, 10}, 0);
  EXPECT_TRUE(has(cut, "cut from")) << text(cut);
  EXPECT_TRUE(has(cut, "1 life in a row ended before the second save")) << text(cut);
  Cadence near = measured({.mtti_s = 14400}, {.stall_s = 2, .persist_s = 10});
  EXPECT_FALSE(has(near, "left as it was")) << text(near);
  near.on_cost({.stall_s = 2.5, .persist_s = 10}, 0);
  EXPECT_TRUE(has(near, "left as it was")) << text(near);
  const PastLife rare[] = {{.seconds = 1e7, .saves = 9}};
  Cadence capped = make({}, rare);
  capped.on_cost({30, 10}, 0);
  EXPECT_TRUE(has(capped, "at most 1h 0m")) << text(capped);
  for (const CadenceOptions& options :
       {CadenceOptions{.every_min_s = 7200}, CadenceOptions{.every_max_s = 60}, CadenceOptions{.rpo_s = 60},
        CadenceOptions{.given_s = 60}, CadenceOptions{.mtti_s = HUGE_VAL}}) {
    EXPECT_TRUE(has(make(options), "before a save was measured") ||
                has(make(options), "no save was measured"))
        << text(make(options));
    EXPECT_FALSE(has(make(options), "inf")) << text(make(options));
  }
}

TEST(Cadence, ShortensAtOnceAfterALifeWithoutASecondSave) {
  const PastLife early[] = {{.seconds = 100, .saves = 1}, {.seconds = 80, .saves = 1}};
  Cadence cadence = make({.mtti_s = 14400}, early);
  cadence.start(0, 0, 0);
  cadence.on_cost({.stall_s = 2, .persist_s = 5}, 0);
  EXPECT_LE(cadence.plan().interval_s, 40);
  cadence.on_cost({.stall_s = 2, .persist_s = 5}, 50);
  EXPECT_GT(cadence.plan().interval_s, 40);
  EXPECT_LT(make({}, early).plan().interval_s, 50);  // before anything was measured, too
}

TEST(Cadence, ShortensNoFurtherThanASaveTakes) {
  for (const std::size_t lives : {50, 5000}) {
    const std::vector<PastLife> early(lives, {.seconds = 0});
    Cadence cadence = make({}, early);
    cadence.start(0, 0, 0);
    cadence.on_cost({.stall_s = 0.02, .persist_s = 0.1}, 5);
    EXPECT_NEAR(cadence.plan().interval_s, 0.12, 1e-9);
    const std::string text = explain_text(cadence.plan(), cadence.mtti_ci95_s());
    EXPECT_NE(text.find(std::to_string(lives) + " lives in a row"), std::string::npos) << text;
  }
}

TEST(Cadence, SaysThatItsRecoveryIsAssumed) {
  Cadence cadence = measured({.mtti_s = 3}, {.stall_s = 0.01, .persist_s = 0.1});
  const auto text = [&] { return explain_text(cadence.plan(), cadence.mtti_ci95_s()); };
  EXPECT_NE(text().find("with a recovery of 1m 0s, assumed"), std::string::npos) << text();
  cadence.on_recovery(2);
  cadence.on_cost({.stall_s = 0.01, .persist_s = 0.1}, 0);
  EXPECT_NE(text().find("with a recovery of 2.0s"), std::string::npos) << text();
  EXPECT_EQ(text().find("assumed"), std::string::npos) << text();
}

TEST(Cadence, CountsOnlyLivesThatLostWork) {
  const PastLife kept[] = {{.seconds = kDay, .saves = 9, .has_lost_work = false},
                           {.seconds = kDay, .saves = 9, .has_lost_work = false}};
  const PastLife lost[] = {{.seconds = kDay, .saves = 9}, {.seconds = kDay, .saves = 9}};
  EXPECT_EQ(make({.mtti_s = kDay}, kept).plan().failures, 0);
  EXPECT_EQ(make({.mtti_s = kDay}, lost).plan().failures, 2);
  EXPECT_GT(make({.mtti_s = kDay}, kept).plan().mtti_s, make({.mtti_s = kDay}, lost).plan().mtti_s);
  EXPECT_EQ(make({.mtti_s = kDay}, kept).plan().node_days, 2);
}

TEST(Cadence, MovesToAGridStepThatIsNear) {
  Cadence cadence = measured({.mtti_s = 14400, .keep_every = 100}, {.stall_s = 2, .persist_s = 10});
  const double interval = cadence.plan().interval_s;  // about 240 s
  ASSERT_NEAR(interval, 240, 3);
  const double step_s = interval / 95;  // due at step 95, the grid is five steps away
  for (std::uint64_t step = 1; step < 100; ++step)
    EXPECT_FALSE(cadence.should_save(step, step_s * static_cast<double>(step))) << step;
  EXPECT_TRUE(cadence.should_save(100, step_s * 100));

  Cadence far = measured({.mtti_s = 14400, .keep_every = 100}, {.stall_s = 2, .persist_s = 10});
  const double faster = interval / 80 * 1.0001;
  for (std::uint64_t step = 1; step < 80; ++step)
    EXPECT_FALSE(far.should_save(step, faster * static_cast<double>(step)));
  EXPECT_TRUE(far.should_save(80, faster * 80));
}

TEST(Cadence, NamesTheStepForAGroup) {
  Cadence cadence = measured({.mtti_s = 14400}, {.stall_s = 2, .persist_s = 10});
  EXPECT_EQ(cadence.next_save_step(0, 0), 1u);  // no step was seen yet
  cadence.should_save(1, 10);
  const auto named = cadence.next_save_step(1, 10);
  EXPECT_NEAR(static_cast<double>(named), cadence.plan().interval_s / 10, 1);
  for (std::uint64_t step = 2; step < named; ++step)
    EXPECT_FALSE(cadence.should_save(step, 10.0 * static_cast<double>(step))) << step;
  EXPECT_TRUE(cadence.should_save(named, 10.0 * static_cast<double>(named)));
}

TEST(Cadence, LeavesTheIntervalWhereATenthWouldChangeIt) {
  Cadence cadence = measured({.mtti_s = 14400}, {.stall_s = 2, .persist_s = 10});
  const double interval = cadence.plan().interval_s;
  cadence.take_news();
  cadence.on_cost({.stall_s = 2.2, .persist_s = 10}, 0);
  EXPECT_EQ(cadence.plan().interval_s, interval);
  EXPECT_FALSE(cadence.take_news());
  cadence.on_cost({.stall_s = 4, .persist_s = 10}, 0);
  EXPECT_NE(cadence.plan().interval_s, interval);
  EXPECT_FALSE(cadence.take_news()) << "followed, but too little to say";
  for (int i = 0; i < 3; ++i) cadence.on_cost({.stall_s = 20, .persist_s = 30}, 0);
  EXPECT_GT(cadence.plan().interval_s, 2 * interval);
  EXPECT_TRUE(cadence.take_news());
  EXPECT_FALSE(cadence.take_news());
}

TEST(Cadence, SaysNoIntervalShorterThanAStep) {
  Cadence cadence = measured({.mtti_s = 3600, .rpo_s = 300}, {.stall_s = 1e-6, .persist_s = 1e-3});
  cadence.take_news();
  for (std::uint64_t step = 1; step <= 20; ++step) {
    const double now_s = 0.4 * static_cast<double>(step);
    // One that is a little shorter than the others is saved too.
    EXPECT_TRUE(cadence.should_save(step, step == 20 ? now_s - 0.05 : now_s)) << step;
    cadence.on_save(now_s);
    cadence.on_cost({.stall_s = 1e-6, .persist_s = 1e-3}, now_s);
  }
  EXPECT_GE(cadence.plan().interval_s, 0.38);
  EXPECT_LE(cadence.plan().interval_s, 0.4);
  EXPECT_EQ(cadence.plan().efficiency,
            efficiency(cadence.plan().interval_s, {.stall_s = cadence.plan().stall_s,
                                                   .mtti_s = cadence.plan().mtti_s,
                                                   .recovery_s = 60,
                                                   .persist_s = cadence.plan().persist_s}));
  EXPECT_FALSE(cadence.take_news()) << "what is done did not change";
}

TEST(Cadence, SaysWhatLimitsTheIntervalOnlyWhenThatMovesIt) {
  // The optimum is close to what the storage follows: now the one decides, now the other.
  const double best_s = measured({.mtti_s = 5000}, {.stall_s = 1, .persist_s = 1}).plan().interval_s;
  Cadence cadence = measured({.mtti_s = 5000}, {.stall_s = 1, .persist_s = 0.95 * best_s});
  EXPECT_TRUE(cadence.take_news());
  const BoundBy before = cadence.plan().bound_by;
  bool has_changed = false;
  for (int i = 0; i < 20; ++i) {
    cadence.on_cost({.stall_s = 1, .persist_s = (i % 10 < 5 ? 1.03 : 0.95) * best_s}, 0);
    has_changed = has_changed || cadence.plan().bound_by != before;
    EXPECT_FALSE(cadence.take_news()) << i;
  }
  EXPECT_TRUE(has_changed);
  for (int i = 0; i < 5; ++i) cadence.on_cost({.stall_s = 1, .persist_s = 1.2 * best_s}, 0);
  EXPECT_TRUE(cadence.take_news());
}

TEST(Cadence, ExplainsWithItsOwnNumbers) {
  const Cadence cadence = measured({.mtti_s = 14400}, {.stall_s = 2, .persist_s = 10});
  const Json json = explain_json(cadence.plan(), cadence.mtti_ci95_s());
  for (const char* key : {"interval_s", "stall_s", "persist_s", "mtti_s", "mtti_ci95_s", "failures",
                          "node_days", "prior", "recovery_s", "floor_s", "bound_by", "efficiency", "text"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_LT(json["mtti_ci95_s"][0], json["mtti_s"]);
  EXPECT_GT(json["mtti_ci95_s"][1], json["mtti_s"]);
  EXPECT_NE(json["text"].get<std::string>().find("d = 2.0s"), std::string::npos) << json["text"];
  EXPECT_EQ(explain_json(make({.mtti_s = HUGE_VAL}).plan(), {HUGE_VAL, HUGE_VAL})["mtti_s"], "Infinity");
}

TEST(Cadence, PrintsWhatADecisionCosts) {
  Cadence cadence = measured({.mtti_s = 1e7, .keep_every = 1000000}, {.stall_s = 2, .persist_s = 10});
  const auto begin = std::chrono::steady_clock::now();
  int saves = 0;
  for (std::uint64_t step = 1; step <= 1000000; ++step)
    saves += cadence.should_save(step, 1e-3 * static_cast<double>(step));
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("decide_ns", std::to_string(took.count() / 1e6));
  EXPECT_GE(saves, 1);
}

TEST(Cadence, FollowsTheStepTimeWhereStepsAreGiven) {
  Cadence cadence = Cadence::create({.mtti_s = 14400, .given_steps = 1000}).value();
  cadence.start(0, 0, 0);
  double now_s = 100;  // compiles, loads, warms up
  cadence.on_step(1, now_s);
  cadence.on_save(now_s);
  cadence.on_cost({.stall_s = 1, .persist_s = 1}, now_s);
  EXPECT_EQ(cadence.plan().interval_s, 100e3);
  const double efficiency = cadence.plan().efficiency;
  for (std::uint64_t step = 2; step < 200; ++step) cadence.on_step(step, now_s += 0.5);
  EXPECT_NEAR(cadence.plan().interval_s, 500, 10) << "no save since";
  EXPECT_NE(cadence.plan().efficiency, efficiency);
}

TEST(Cadence, TellsAPriorAsItWasSaid) {
  const auto text = [](const CadenceOptions& options) {
    const Cadence cadence = Cadence::create(options).value();
    return explain_text(cadence.plan(), cadence.mtti_ci95_s());
  };
  EXPECT_NE(text({.mtti_s = 14400}).find("a prior of one every 4h 0m of a node"), std::string::npos);
  EXPECT_NE(text({}).find("a prior of 3.8 per 1,000 node-days"), std::string::npos);
}

}  // namespace
}  // namespace unbroken
