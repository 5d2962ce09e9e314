#include "cadence/failure_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace unbroken {
namespace {

void fail_regularly(FailureRate& rate, int times, double gap_days) {
  for (int i = 0; i < times; ++i) {
    rate.on_alive(gap_days);
    rate.on_failure();
  }
}

TEST(GammaP, GivesKnownValues) {
  EXPECT_NEAR(gamma_p(1, 1), 1 - std::exp(-1.0), 1e-14);
  EXPECT_NEAR(gamma_p(0.5, 0.5), std::erf(std::sqrt(0.5)), 1e-14);
  EXPECT_NEAR(gamma_p(10, 3), 0.00110248814, 1e-10);
  EXPECT_NEAR(gamma_p(3, 10), 1 - std::exp(-10.0) * (1 + 10 + 50), 1e-14);
  EXPECT_NEAR(gamma_p(500, 500), 0.5059471461, 1e-9);
  EXPECT_EQ(gamma_p(2, 0), 0);
}

TEST(FailureRate, BeginsAtThePrior) {
  const FailureRate rate({.per_1000_node_days = 6.5, .weight = 2});
  EXPECT_NEAR(rate.per_node_day(), 0.0065, 0.0065 * 0.01);
  const double low = rate.quantile_per_node_day(0.025), high = rate.quantile_per_node_day(0.975);
  EXPECT_NEAR(low / 0.0065, 0.1211, 0.03);  // Gamma(2, 2): 0.1211 and 2.7858
  EXPECT_NEAR(high / 0.0065, 2.7858, 0.08);
}

TEST(FailureRate, IsTheGammaPosteriorWhileNothingChanges) {
  FailureRate rate({.per_1000_node_days = 10, .weight = 2});
  fail_regularly(rate, 5, 100);
  // Gamma(2 + 5, 200 + 500); the chance of a change widens it a little.
  EXPECT_NEAR(rate.per_node_day(), 0.01, 0.0005);
  EXPECT_NEAR(rate.quantile_per_node_day(0.5), 0.00953, 0.0006);
  EXPECT_EQ(rate.failures(), 5);
  EXPECT_EQ(rate.node_days(), 500);
}

TEST(FailureRate, LetsOneWeekOfDataDominate) {
  // 1,000 nodes at ten failures a day against a prior of 3.8 a day.
  FailureRate rate;
  fail_regularly(rate, 70, 100);
  EXPECT_NEAR(rate.per_node_day(), 0.01, 0.001);
}

TEST(FailureRate, FollowsAStepEitherWay) {
  for (const double factor : {5.0, 0.2}) {
    FailureRate rate({.per_1000_node_days = 10});
    fail_regularly(rate, 60, 100);
    fail_regularly(rate, 10, 100 / factor);
    EXPECT_NEAR(rate.per_node_day() / (0.01 * factor), 1, 0.35) << factor;
  }
}

TEST(FailureRate, TellsARangeThatHoldsTheTruthOfAFreshRun) {
  // Whatever the job's true rate is, with less than one failure expected to be behind it.
  for (const double mtti_days : {4.0 / 24, 1.0, 7.0, 100.0}) {
    FailureRate rate(FailurePrior::assumed(1));
    rate.on_alive(std::min(mtti_days / 10, 1.0));
    const FailureRate::Range range = rate.ci95_per_node_day();
    EXPECT_EQ(range.low, 0) << mtti_days;
    EXPECT_GT(range.high, 1 / mtti_days) << mtti_days;
  }
}

TEST(FailureRate, TellsARangeThatHoldsItsMeanAndDoesNotJump) {
  double before = 0;
  for (double weight = 0.001; weight < 20; weight *= 1.02) {
    const FailureRate rate({.per_1000_node_days = 1000 * weight, .weight = weight});
    const FailureRate::Range range = rate.ci95_per_node_day();
    EXPECT_LE(range.low, rate.per_node_day()) << weight;
    EXPECT_GE(range.high, rate.per_node_day()) << weight;
    if (before > 0) {
      EXPECT_NEAR(range.high / before, 1, 0.03) << weight;
    }
    before = range.high;
  }
}

TEST(FailureRate, LearnsFromQuietTimeBeforeAnyFailure) {
  FailureRate rate({.per_1000_node_days = 10});
  const double before = rate.per_node_day();
  rate.on_alive(1000);
  EXPECT_LT(rate.per_node_day(), before / 3);
  EXPECT_GT(rate.per_node_day(), 0);
}

TEST(FailureRate, ExpectsNoneUntilOneHappens) {
  FailureRate rate({.per_1000_node_days = 0});
  EXPECT_EQ(rate.per_node_day(), 0);
  EXPECT_EQ(rate.quantile_per_node_day(0.9), 0);
  rate.on_alive(50);
  rate.on_failure();
  EXPECT_GT(rate.per_node_day(), 0.002);
  EXPECT_LT(rate.per_node_day(), 0.2);
}

TEST(FailureRate, ForgetsNothingImportantAfterManyRegimes) {
  FailureRate rate({.per_1000_node_days = 10});
  for (int round = 0; round < 10; ++round) fail_regularly(rate, 30, round % 2 == 0 ? 100 : 3);
  fail_regularly(rate, 20, 100);
  EXPECT_NEAR(rate.per_node_day(), 0.01, 0.004);
}

TEST(FailureRate, StandsFailuresWithoutAnyTime) {
  FailureRate rate;
  for (int i = 0; i < 200; ++i) rate.on_failure();
  EXPECT_TRUE(std::isfinite(rate.per_node_day()));
  EXPECT_GT(rate.per_node_day(), 0.0038);
  EXPECT_TRUE(std::isfinite(rate.quantile_per_node_day(0.975)));
}

}  // namespace
}  // namespace unbroken
