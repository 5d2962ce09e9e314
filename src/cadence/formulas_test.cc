#include "cadence/formulas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "cadence/tiers.h"

namespace unbroken {
namespace {

constexpr double kTolerance = 1e-4;  // relative
#define EXPECT_CLOSE(a, b) EXPECT_NEAR((a) / (b), 1, kTolerance)

Json vectors() {
  std::ifstream in(UNBROKEN_SOURCE_DIR "/tests/vectors/cadence.json");
  std::stringstream text;
  text << in.rdbuf();
  return parse_json(text.str()).value();
}

TEST(Vectors, AllHold) {
  const Json all = vectors();
  ASSERT_EQ(all.size(), 21u);
  for (const Json& v : all) {
    SCOPED_TRACE(v["id"].get<std::string>());
    const JobTimes job{.stall_s = v["stall_s"],
                       .mtti_s = v["mtti_s"],
                       .recovery_s = v["recovery_s"],
                       .persist_s = v["persist_s"]};
    EXPECT_CLOSE(young_interval_s(job.stall_s, job.mtti_s), v["young_s"].get<double>());
    EXPECT_CLOSE(daly_interval_s(job.stall_s, job.mtti_s), v["daly_s"].get<double>());
    const double exact = exact_interval_s(job.stall_s, job.mtti_s);
    EXPECT_CLOSE(exact, v["exact_s"].get<double>());
    EXPECT_CLOSE(efficiency(exact, job), v["efficiency_at_exact"].get<double>());
  }
}

TEST(LambertW, SolvesItsEquation) {
  for (const double x :
       {-0.36787944, -0.36, -0.2, -1e-9, 0.0, 1e-9, 0.2, 1.0, 2.9, 3.1, 100.0, 1e10, 1e300}) {
    const double w = lambert_w0(x);
    EXPECT_NEAR(w * std::exp(w), x, 1e-12 * std::max(1.0, std::abs(x))) << x;
    EXPECT_GE(w, -1) << x;
  }
  EXPECT_NEAR(lambert_w0(1), 0.567143290409783873, 1e-15);
  EXPECT_EQ(lambert_w0(-1), -1);
}

TEST(Exact, IsTheMaximumAndSmoothWhereMethodsMeet) {
  for (const double stall : {1e-9, 1e-4, 0.5, 40.0, 2000.0}) {
    const JobTimes job{.stall_s = stall, .mtti_s = 1000, .recovery_s = 70};
    const double best = exact_interval_s(stall, 1000);
    EXPECT_GE(efficiency(best, job), efficiency(best * 1.01, job)) << stall;
    EXPECT_GE(efficiency(best, job), efficiency(best / 1.01, job)) << stall;
  }
  EXPECT_NEAR(exact_interval_s(0.999e-3, 1000) / exact_interval_s(1.001e-3, 1000), std::sqrt(0.998 / 1.0),
              1e-3);
  EXPECT_NEAR(exact_interval_s(1e-3 * (1 - 1e-12), 1000) / exact_interval_s(1e-3 * (1 + 1e-12), 1000), 1,
              1e-8);
}

TEST(Daly, IsNoneOfItsMisprints) {
  const double d = 100, m = 1000;
  const double daly = daly_interval_s(d, m);
  EXPECT_CLOSE(daly, 383.03144880829103);
  const double misprints[] = {std::sqrt(2 * d * m + d * d) - d, std::sqrt(2 * d * m) - d,
                              std::sqrt(2 * d * m) + d};
  const double printed[] = {358.26, 347.21, 547.21};
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(misprints[i], printed[i], 0.01);
    EXPECT_GT(std::abs(misprints[i] / daly - 1), 0.05);
  }
  EXPECT_EQ(daly_interval_s(2000, 1000), 1000);
}

TEST(Efficiency, FallsWithPersistAndFloor) {
  const JobTimes job{.stall_s = 5, .mtti_s = 1063.3846153846155, .recovery_s = 120, .persist_s = 600};
  const double best = exact_interval_s(job.stall_s, job.mtti_s);
  EXPECT_CLOSE(efficiency(best, job), 0.4604043259615883);
  EXPECT_EQ(std::ceil(600 / (best + 5)), 6);  // saves in flight
  EXPECT_LE(floor_interval_s({.stall_s = 5, .persist_s = 600, .in_flight = 6}), best);
  const double floor = floor_interval_s({.stall_s = 5, .persist_s = 600, .in_flight = 1});
  EXPECT_EQ(floor, 595);
  EXPECT_NEAR(efficiency(floor, job), 0.375011, 1e-6);
  EXPECT_NEAR(efficiency(1129.62893839594, {.stall_s = 600, .mtti_s = 1063.3846153846155, .recovery_s = 120}),
              0.2322, 5e-5);
  EXPECT_EQ(floor_interval_s({.stall_s = 5, .persist_s = 1, .write_s = 65}), 60);
}

TEST(Efficiency, ReachesLlama3BudgetsOnlyWithAsync) {
  const double m = 11135.08353221957;
  EXPECT_NEAR(efficiency(exact_interval_s(5, m), {.stall_s = 5, .mtti_s = m, .recovery_s = 600}), 0.919430,
              1e-5);
  EXPECT_NEAR(efficiency(young_interval_s(120, m), {.stall_s = 120, .mtti_s = m}), 0.8601, 5e-5);
  // The recovery that 90 % leaves at 466 interruptions, by Young's interval.
  const double m466 = 54 * 86400.0 / 466;
  const auto recovery_s = [&](double stall_s) {
    return m466 *
           std::log(efficiency(young_interval_s(stall_s, m466), {.stall_s = stall_s, .mtti_s = m466}) / 0.9);
  };
  EXPECT_NEAR(recovery_s(5), 736.8, 0.1);
  EXPECT_NEAR(recovery_s(30), 269.4, 0.1);
}

TEST(Efficiency, NeedsNoFailures) {
  const JobTimes job{.stall_s = 10, .mtti_s = HUGE_VAL, .recovery_s = 600};
  EXPECT_NEAR(efficiency(90, job), 0.9, 1e-12);
  EXPECT_NEAR(waste_of(90, job).stall, 0.1, 1e-12);
}

TEST(ExactInterval, IsTheBestWithNoticesToo) {
  for (const double share : {0.0, 0.3, 0.7, 0.87, 0.98})
    for (const double persist_s : {0.0, 5.0, 400.0}) {
      const JobTimes job{.stall_s = 27,
                         .mtti_s = 1189,
                         .recovery_s = 4,
                         .persist_s = persist_s,
                         .notice_share = share,
                         .notice_cost_s = 30};
      const double best_s = exact_interval_s(job), best = efficiency(best_s, job);
      for (const double factor : {0.95, 0.99, 1.01, 1.05}) EXPECT_GT(best, efficiency(factor * best_s, job));
    }
  EXPECT_EQ(exact_interval_s(JobTimes{.stall_s = 5, .mtti_s = 1063, .persist_s = 60}),
            1063 * exact_interval_s(5.0 / 1063, 1));
  EXPECT_EQ(exact_interval_s(JobTimes{.stall_s = 5, .mtti_s = 1, .persist_s = 1e6, .notice_share = 0.5}),
            100);
}

TEST(Waste, PartsSumToTheRest) {
  for (const double interval : {0.5, 100.0, 5000.0, 1e6})
    for (const double mtti : {10.0, 1063.0, 1e6})
      for (const double share : {0.0, 0.5})
        for (const double slowdown : {0.0, 0.3}) {
          const JobTimes job{.stall_s = 5,
                             .mtti_s = mtti,
                             .recovery_s = 120,
                             .persist_s = 60,
                             .slowdown = slowdown,
                             .notice_share = share,
                             .notice_cost_s = 65};
          const Waste w = waste_of(interval, job);
          EXPECT_NEAR(w.sum() + efficiency(interval, job), 1, 1e-9) << interval << " " << mtti;
          for (const double part : {w.stall, w.lost_work, w.recovery, w.persist_lag, w.slowdown})
            EXPECT_GE(part, 0);
        }
  EXPECT_EQ(waste_of(10, {.stall_s = 1, .mtti_s = 1, .recovery_s = 1e6}).sum(), 1);
  const JobTimes never{.stall_s = 5, .mtti_s = 0.001, .persist_s = 60, .slowdown = 0.3};  // nothing is kept
  EXPECT_NEAR(waste_of(100, never).sum(), 1, 1e-9);
}

TEST(Series, GivesTheMeasuredClusters) {
  EXPECT_CLOSE(series_mtti_s(2048, 6.5) / 3600, 1.8029);
  EXPECT_CLOSE(series_mtti_s(16384, 6.5) / 3600, 0.225361);
  EXPECT_CLOSE(series_mtti_s(128, 6.5) / 3600, 28.8462);
  EXPECT_CLOSE(series_mtti_s(128, 2.34) / 3600, 80.1282);
  EXPECT_CLOSE(series_mtti_s(2048, 2.34) / 3600, 5.00801);
  EXPECT_CLOSE(series_mtti_s(16384, 2.34) / 3600, 0.626002);
  EXPECT_CLOSE(series_mtti_s(12500, 2.3) / 60, 50.087);
  EXPECT_CLOSE(failures_per_1000_node_days(2048, 54 * 86400.0 / 419), 3.7887);
  EXPECT_TRUE(std::isinf(series_mtti_s(100, 0)));
  EXPECT_EQ(failures_per_1000_node_days(100, HUGE_VAL), 0);
  EXPECT_CLOSE(87600 * 3600.0 / 1250, 252288.0);
}

TEST(Ettr, GivesMetasFigures) {
  const auto minutes = [](double nodes, double rate, double u0, double dt, double w) {
    return ettr(
        {.interval_s = dt, .stall_s = w, .recovery_s = u0, .mtti_s = series_mtti_s(nodes, rate) / 60});
  };
  EXPECT_CLOSE(minutes(128, 5, 5, 60, 5).value, 0.90872);
  EXPECT_CLOSE(minutes(256, 5, 5, 60, 5).value, 0.89436);
  EXPECT_CLOSE(minutes(2048, 6.5, 5, 60, 5).value, 0.62441);
  EXPECT_NEAR(minutes(2048, 6.5, 5, 32.89, 5).value, 0.69595, 1e-4);
  EXPECT_CLOSE(minutes(12500, 2.34, 2, 2, 5.0 / 60).value, 0.90151);
  EXPECT_CLOSE(minutes(12500, 6.5, 2, 2.431, 10.0 / 60).value, 0.76604);
  EXPECT_CLOSE(minutes(12500, 1, 5, 15.18, 1).value, 0.83566);
}

TEST(Ettr, KnowsWhereItStopsBeingTrue) {
  const double m = series_mtti_s(12500, 6.5);
  const Ettr far = ettr({.interval_s = 13.31 * 60, .stall_s = 300, .recovery_s = 300, .mtti_s = m});
  EXPECT_NEAR(far.value, 0.24884, 1e-4);
  EXPECT_FALSE(far.is_in_domain);
  EXPECT_NEAR(efficiency(798.8, {.stall_s = 300, .mtti_s = m, .recovery_s = 300}), 0.31295, 1e-4);
  EXPECT_EQ(ettr({.interval_s = 600, .stall_s = 1, .recovery_s = 1e6, .mtti_s = m}).value, 0);
  EXPECT_TRUE(ettr({.interval_s = 60, .stall_s = 1, .recovery_s = 60, .mtti_s = m}).is_in_domain);
}

TEST(Notice, LengthensTheInterval) {
  const double shares[] = {0, 0.5, 0.8, 0.95};
  const double periods[] = {464.8, 657.3, 1039.2, 2078.5};
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(young_interval_s(30, mtti_without_notice_s(3600, shares[i])), periods[i], 0.05);
}

TEST(Notice, FitsOrNot) {
  EXPECT_EQ(notice_needs_s(20, 0.5, 80, 2), 102.5);
  EXPECT_TRUE(fits_notice(102.5, 120));
  EXPECT_FALSE(fits_notice(102.5, 30));
  EXPECT_EQ(notice_needs_s(5, 0.5, 20, 1), 26.5);
  EXPECT_TRUE(fits_notice(26.5, 30));
}

TEST(Exposure, IsHalfAPeriodAndTheLag) {
  EXPECT_EQ(mean_lost_s(300, 120), 270);
  EXPECT_EQ(max_lost_s(300, 120), 420);
  EXPECT_EQ(mean_lost_s(300, 600), 750);
  EXPECT_EQ(max_lost_s(300, 600), 900);
}

struct TwoTiers {
  double d1, d2, mtti, share, r1, r2, t1, t2;
  std::uint64_t every;
  double first_order, simulated, stderr_of_it;
};

TEST(Tiers, GiveTheTwoLevelCases) {
  const TwoTiers cases[] = {{5, 120, 10800, 0.75, 60, 900, 379.47, 3219.94, 8, 0.876, 0.882, 0.0024},
                            {0.2, 120, 10800, 0.75, 60, 900, 75.89, 3219.94, 42, 0.895, 0.898, 0.0023},
                            {1, 60, 1800, 0.9, 60, 600, 63.25, 1469.69, 23, 0.824, 0.833, 0.0045}};
  for (const TwoTiers& c : cases) {
    const TierTimes tiers[] = {{.stall_s = c.d1, .recovery_s = c.r1, .share = c.share},
                               {.stall_s = c.d2, .recovery_s = c.r2, .share = 1 - c.share}};
    const auto plan = tier_intervals(tiers, c.mtti);
    EXPECT_CLOSE(plan[0].interval_s, c.t1);
    EXPECT_CLOSE(plan[1].interval_s, c.t2);
    EXPECT_EQ(plan[1].every, c.every);
    const TierJob job{tiers, plan, c.t1 - c.d1, c.mtti};
    EXPECT_NEAR(tier_efficiency_first_order(job), c.first_order, 1e-3);
    EXPECT_NEAR(tier_efficiency(job), c.simulated, 2 * c.stderr_of_it);
    EXPECT_NEAR(tier_waste(job).sum() + tier_efficiency(job), 1, 1e-9);
  }
}

TEST(Tiers, WithOneAreTheSingleFormula) {
  const TierTimes tiers[] = {{.stall_s = 5, .persist_s = 60, .recovery_s = 120, .share = 1}};
  const auto plan = tier_intervals(tiers, 1063);
  const TierJob job{tiers, plan, 100, 1063};
  EXPECT_NEAR(tier_efficiency(job),
              efficiency(100, {.stall_s = 5, .mtti_s = 1063, .recovery_s = 120, .persist_s = 60}), 1e-12);
}

TEST(Tiers, WithOneAndNoticesAreTheSingleFormula) {
  const TierTimes tiers[] = {{.stall_s = 5, .recovery_s = 120, .share = 1}};
  const auto plan = tier_intervals(tiers, 1063);
  const TierJob job{tiers, plan, 100, 1063, 0.6, 7};
  EXPECT_NEAR(
      tier_efficiency(job),
      efficiency(100,
                 {.stall_s = 5, .mtti_s = 1063, .recovery_s = 120, .notice_share = 0.6, .notice_cost_s = 7}),
      1e-12);
}

TEST(Tiers, DropOneThatIsNotWorthIt) {
  const TierTimes tiers[] = {{.stall_s = 100, .recovery_s = 60, .share = 0.1},
                             {.stall_s = 120, .recovery_s = 900, .share = 0.9}};
  const auto plan = tier_intervals(tiers, 10800);
  EXPECT_FALSE(plan[0].is_used);
  EXPECT_TRUE(plan[1].is_used);
  EXPECT_EQ(plan[1].every, 1u);
  EXPECT_CLOSE(plan[1].interval_s, young_interval_s(120, 10800));
}

}  // namespace
}  // namespace unbroken
