// How a plan reads.
#include <gmock/gmock.h>

#include <cmath>

#include "planner/test_plan.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

TEST(PlanText, WritesNumbersOut) {
  const Plan small = plan({{"mtti", "600y"}, {"gpus", "1"}, {"stall", "1s"}}).value();
  EXPECT_THAT(plan_text(small),
              HasSubstr("1 accelerator on 1 node, one failure every 219000d 0h (0.0046 per 1,000"));
  const Plan large = plan({{"state", "6TB"}}, {}, "h100-100k-async").value();
  EXPECT_THAT(plan_text(large), HasSubstr("storage     24000 GB"));
  EXPECT_THAT(plan_text(large), HasSubstr("100000 accelerators on 12500 nodes"));
}

TEST(PlanJson, AsksForAFiniteIntervalOfATierThatNoFailureNeeds) {
  const Json json = to_json(
      plan({{"mtti", "3h"}}, {"a:stall=1s,recovers=0.8", "b:stall=5s,recovers=0.5", "c:stall=1min"}).value());
  for (const Json& tier : json["tiers"]) EXPECT_TRUE(tier["interval_s"].is_number()) << tier;
}

TEST(SavePlan, HasTheBestIntervalWhereMostInterruptionsComeWithANotice) {
  const Values job{{"mtti", "1189s"},
                   {"stall", "26.9s"},
                   {"persist", "0.6s"},
                   {"recovery", "3.8s"},
                   {"notice-share", "0.87"}};
  const Plan best = plan(job).value();
  EXPECT_EQ(best.saves.bound_by, BoundBy::optimum);
  for (const char* interval : {"650s", "684s", "740s", "750s", "780s"}) {
    Values given = job;
    given["interval"] = interval;
    EXPECT_GE(best.efficiency, plan(given).value().efficiency) << interval;
  }
}

}  // namespace
}  // namespace unbroken
