#include "drill/kill_plan.h"

#include <gtest/gtest.h>

#include <set>

namespace unbroken {
namespace {

/// A run of 40 steps that saves every 10th one, and after the first.
StraightRun straight() {
  StraightRun run{.steps = 40,
                  .points = {"open.appended"},
                  .resume_points = {"open.loaded"},
                  .seconds = 5,
                  .first_step_s = 1};
  for (int step = 1; step <= 40; ++step) {
    run.points.emplace_back("step.boundary");
    if (step != 1 && step % 10 != 0) continue;
    run.points.emplace_back("save.after_snapshot");
    run.points.emplace_back("commit.done");
    if (step >= 30) run.points.emplace_back("collect.before_remove");
  }
  return run;
}

TEST(KillPlan, TheFirstKillComesAfterACommit) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    KillPlan plan(KillAt::points, 4, seed, straight());
    const auto kill = plan.next(0, false);
    ASSERT_TRUE(kill);
    ASSERT_FALSE(kill->point.empty());
    // The first pass of each of these lies before the first commit is done, or is it.
    EXPECT_TRUE(kill->pass >= 2 || kill->point == "collect.before_remove") << kill->point;
    EXPECT_NE(kill->point, "step.boundary");  // which waits for no commit
    EXPECT_NE(kill->point, "open.appended");
    EXPECT_NE(kill->point, "open.loaded");
  }
}

TEST(KillPlan, EveryPointAndEverySignalComesUp) {
  std::set<std::string> points;
  std::set<KillBy> signals;
  KillPlan plan(KillAt::points, 12, 7, straight());
  std::uint64_t began = 0;
  for (int life = 0; life < 12; ++life, began += 2) {
    const auto kill = plan.next(began, life > 0);
    ASSERT_TRUE(kill);
    points.insert(kill->point);
    signals.insert(kill->by);
    plan.count();
  }
  EXPECT_EQ(points.size(), 6U);  // five that were passed, and open.loaded
  EXPECT_EQ(signals.size(), 3U);
}

TEST(KillPlan, EndsAfterTheKillsThatWereAskedFor) {
  KillPlan plan(KillAt::steps, 2, 1, straight());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(plan.next(0, true));
    plan.count();
  }
  EXPECT_FALSE(plan.next(0, true));
  EXPECT_EQ(plan.kills(), 2U);
}

TEST(KillPlan, AKillThatMissedIsPlannedAgain) {
  KillPlan plan(KillAt::steps, 1, 1, straight());
  ASSERT_TRUE(plan.next(0, true));
  EXPECT_TRUE(plan.next(10, true));
}

TEST(KillPlan, LeavesStepsForTheKillsThatFollow) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    KillPlan plan(KillAt::steps, 4, seed, straight());
    std::uint64_t began = 0;
    for (int life = 0; life < 4; ++life) {
      const auto kill = plan.next(began, true);
      ASSERT_TRUE(kill) << "life " << life << " of seed " << seed;
      EXPECT_GT(kill->step, began);
      EXPECT_LT(kill->step, 40U);
      began = kill->step;
      plan.count();
    }
  }
}

TEST(KillPlan, KillsNobodyWhoHasNothingToDo) {
  KillPlan plan(KillAt::random, 3, 1, straight());
  EXPECT_FALSE(plan.next(40, true));
}

TEST(KillPlan, RandomTimesLieWithinTheRun) {
  bool has_early = false;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    KillPlan plan(KillAt::random, 3, seed, straight());
    const auto first = plan.next(0, false);
    ASSERT_TRUE(first);
    EXPECT_FALSE(first->is_from_start);
    EXPECT_LE(first->delay_s, 4.0 / 3);
    plan.count();
    const auto second = plan.next(10, true);
    has_early = has_early || second->is_from_start;
    EXPECT_LE(second->delay_s, 4.0);
  }
  EXPECT_TRUE(has_early);
}

TEST(KillPlan, ASeedMeansTheSameEveryTime) {
  KillPlan a(KillAt::points, 5, 3, straight()), b(KillAt::points, 5, 3, straight()),
      c(KillAt::points, 5, 4, straight());
  bool differs = false;
  for (int life = 0; life < 5; ++life) {
    const auto one = a.next(0, life > 0), same = b.next(0, life > 0), other = c.next(0, life > 0);
    EXPECT_EQ(one->point, same->point);
    EXPECT_EQ(one->pass, same->pass);
    EXPECT_EQ(one->by, same->by);
    differs = differs || one->point != other->point || one->pass != other->pass;
  }
  EXPECT_TRUE(differs);
}

TEST(KillPlan, NamesOfPlaces) {
  EXPECT_EQ(kill_at_from("points"), KillAt::points);
  EXPECT_EQ(kill_at_from("steps"), KillAt::steps);
  EXPECT_EQ(kill_at_from("random"), KillAt::random);
  EXPECT_FALSE(kill_at_from("anywhere"));
}

}  // namespace
}  // namespace unbroken
