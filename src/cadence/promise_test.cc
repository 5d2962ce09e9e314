// What `rpo` promises, kept or told: saves that fail, saves that are late, and the steps of a real loop.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cadence/cadence.h"
#include "cadence/explain.h"
#include "cadence/random_test.h"

namespace unbroken {
namespace {

/// A run whose saves all cost the same, at work from time 0.
Cadence measured(const CadenceOptions& options, const SaveCost& cost, double step_s = 0) {
  Cadence cadence = Cadence::create(options).value();
  const SaveCost costs[] = {cost, cost, cost};
  cadence.remember(costs, {}, step_s);
  cadence.start(0, 0, 0);
  return cadence;
}

TEST(Promise, TriesAgainSoonAfterAFailedSave) {
  Cadence cadence = measured({.mtti_s = 14400}, {.stall_s = 2, .persist_s = 10});
  const double interval_s = cadence.plan().interval_s;
  double now_s = 300, pause_s = 12;
  std::uint64_t step = 0;
  for (int failures = 1; failures < 12; ++failures) {
    cadence.on_save(now_s);
    cadence.on_failed(now_s += 1);
    EXPECT_FALSE(cadence.should_save(++step, now_s + 0.99 * pause_s)) << failures;
    EXPECT_TRUE(cadence.should_save(++step, now_s += 1.01 * pause_s)) << failures;
    pause_s = std::min(2 * pause_s, interval_s);
  }
  cadence.on_save(now_s);
  cadence.on_kept(now_s, now_s + 10);
  cadence.on_cost({.stall_s = 2, .persist_s = 10}, now_s + 10);
  EXPECT_FALSE(cadence.should_save(++step, now_s + 0.9 * interval_s));
  cadence.on_failed(now_s += interval_s);
  EXPECT_TRUE(cadence.should_save(++step, now_s + 13)) << "the first failure after one that was kept";
}

TEST(Promise, WaitsNoLongerThanATenthOfItBetweenFailures) {
  Cadence cadence = measured({.rpo_s = 600}, {.stall_s = 2, .persist_s = 10});
  double now_s = 100;
  for (std::uint64_t step = 200; step < 220; ++step) {
    cadence.on_failed(now_s);
    EXPECT_TRUE(cadence.should_save(step, now_s += 60.1)) << step;
  }
}

TEST(Promise, WaitsAfterAFailureBeforeAnythingWasMeasured) {
  Cadence cadence = Cadence::create({}).value();
  cadence.start(0, 0, 0);
  cadence.on_failed(5);  // of a save that was not even begun
  EXPECT_FALSE(cadence.should_save(1, 9.9));
  EXPECT_TRUE(cadence.should_save(2, 10.1));
}

TEST(Promise, LeavesRoomForASaveSlowerThanTheLastFew) {
  const auto left_s = [](double rpo_s) {
    Cadence cadence = Cadence::create({.rpo_s = rpo_s}).value();
    const SaveCost costs[] = {{1, 28}, {1, 32}, {1, 30}, {1, 25}, {1, 35}};
    cadence.remember(costs, {}, 0);
    cadence.start(0, 0, 0);
    EXPECT_EQ(cadence.plan().broken_promise, "");
    return rpo_s - cadence.plan().interval_s - 1 - 35;
  };
  EXPECT_NEAR(left_s(600), 10, 1e-9) << "slower by twice what the slowest is above the mean";
  EXPECT_NEAR(left_s(71.5), 0, 1) << "where that leaves no room the promise is not refused for it";
}

TEST(Promise, SaysThatMoreThanWasPromisedWouldBeLost) {
  Cadence cadence = measured({.rpo_s = 120}, {.stall_s = 2, .persist_s = 10});
  const auto told = [&] { return cadence.plan().broken_promise; };
  cadence.watch(100);
  EXPECT_EQ(told(), "");
  cadence.on_save(102);
  cadence.on_failed(110);
  cadence.watch(121);
  EXPECT_NE(told().find("rpo: 2m 0s was not kept"), std::string::npos) << told();
  EXPECT_NE(told().find("the last save failed"), std::string::npos) << told();
  cadence.on_failed(128);
  cadence.watch(130);
  EXPECT_NE(told().find("the last 2 saves failed"), std::string::npos) << "as it is now: " << told();
  cadence.on_save(132);
  cadence.on_kept(132, 142);
  cadence.on_cost({2, 10}, 142);
  EXPECT_NE(told(), "") << "until a save keeps it again";
  EXPECT_EQ(cadence.plan().breaks, 1u);
  EXPECT_EQ(cadence.plan().exposed_s, 142);
  cadence.on_kept(230, 240);
  cadence.on_cost({2, 10}, 240);
  EXPECT_EQ(told(), "");
  EXPECT_EQ(explain_json(cadence.plan(), cadence.mtti_ci95_s())["promise_breaks"], 1);
  const std::string text = explain_text(cadence.plan(), cadence.mtti_ci95_s());
  EXPECT_NE(text.find("rpo was not kept 1 time in this life: up to 2m 22s would have been lost"),
            std::string::npos)
      << text;
}

TEST(Promise, CountsASaveThatWasLateThoughNoBoundarySawIt) {
  Cadence cadence = measured({.rpo_s = 120}, {.stall_s = 2, .persist_s = 10});
  cadence.on_kept(90, 125);  // committed before the next step was over
  cadence.on_cost({2, 35}, 126);
  cadence.watch(126);
  EXPECT_NE(cadence.plan().broken_promise.find("took longer"), std::string::npos)
      << cadence.plan().broken_promise;
  EXPECT_EQ(cadence.plan().breaks, 1u);
  EXPECT_EQ(Cadence(measured({}, {2, 10})).plan().breaks, 0u);
}

/// One run with constant times. True: more than was promised would have been lost at some moment.
bool breaks_promise(const CadenceOptions& options, const SaveCost& cost, double step_s) {
  Cadence cadence = measured(options, cost, step_s);
  if (!cadence.plan().broken_promise.empty()) return false;  // refused
  double now_s = 0, kept_s = 0, snapped_s = 0, ends_s = HUGE_VAL, exposed_s = 0;
  for (std::uint64_t step = 1; step < 4000 && now_s < 40 * options.rpo_s; ++step) {
    now_s += step_s;
    exposed_s = std::max(exposed_s, std::min(now_s, ends_s) - kept_s);
    if (now_s >= ends_s) {
      cadence.on_kept(snapped_s, ends_s);
      cadence.on_cost(cost, now_s);
      kept_s = snapped_s;
      ends_s = HUGE_VAL;
      exposed_s = std::max(exposed_s, now_s - kept_s);
    }
    cadence.watch(now_s);
    const bool is_saving = ends_s < HUGE_VAL;
    if (!cadence.should_save(step, now_s, is_saving ? 1 : 0) && (step != 1 || is_saving)) continue;
    if (is_saving) continue;
    now_s += cost.stall_s;
    snapped_s = now_s;
    ends_s = now_s + cost.persist_s;
    cadence.on_save(now_s);
  }
  EXPECT_EQ(cadence.plan().breaks > 0, exposed_s > options.rpo_s);
  return exposed_s > options.rpo_s * (1 + 1e-9);
}

TEST(Promise, IsKeptByWholeStepsBehindASaveThatPersists) {
  TestRandom random(3);
  const auto between = [&](double low, double high) { return low * std::pow(high / low, random.uniform()); };
  for (int i = 0; i < 1000; ++i) {
    const double step_s = between(0.01, 100);
    const SaveCost cost{.stall_s = between(0.001, 30), .persist_s = between(0.001, 100)};
    const double least_s = step_s + cost.stall_s + cost.persist_s;
    CadenceOptions options{.rpo_s = between(1.01 * least_s + step_s, 20 * least_s)};
    if (i % 2 == 0) options.mtti_s = between(10, 1e6);
    if (i % 3 == 0) options.keep_every = static_cast<std::uint64_t>(between(2, 500));
    EXPECT_FALSE(breaks_promise(options, cost, step_s))
        << "rpo " << options.rpo_s << " step " << step_s << " stall " << cost.stall_s << " persist "
        << cost.persist_s << " keep_every " << options.keep_every;
  }
}

}  // namespace
}  // namespace unbroken
