// The first lives of a run of which nobody said how often it dies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cadence/cadence.h"
#include "cadence/formulas.h"
#include "cadence/random_test.h"

namespace unbroken {
namespace {

constexpr SaveCost kCost{.stall_s = 2, .persist_s = 10};
constexpr double kStep_s = 1;

/// What a life came to.
struct Lived {
  PastLife life;
  double interval_s = 0;  ///< at its end
  double kept_s = 0;      ///< work that a durable save holds
};

Lived live(Cadence& cadence, double dies_s) {
  Lived out{{.seconds = dies_s}, 0, 0};
  cadence.start(0, 0, 0);
  double now_s = 0, work_s = 0, snapped_s = 0;
  double durable_at_s = 0;  // 0: nothing persists
  for (std::uint64_t step = 1; (now_s += kStep_s) < dies_s; ++step) {
    work_s += kStep_s;
    if (durable_at_s > 0 && now_s >= durable_at_s) {
      durable_at_s = 0;
      out.kept_s = snapped_s;
      out.life.saves += 1;
      cadence.on_cost(kCost, now_s);
    }
    const bool is_due = cadence.should_save(step, now_s, durable_at_s > 0 ? 1 : 0) || step == 1;
    if (!is_due || durable_at_s > 0) continue;
    now_s += kCost.stall_s;
    cadence.on_save(now_s);
    snapped_s = work_s;
    durable_at_s = now_s + kCost.persist_s;
  }
  out.interval_s = cadence.plan().interval_s;
  return out;
}

/// Means over runs that die after exponential times, life by life.
struct Table {
  std::vector<double> interval_s, kept;
};

Table lives_of(double mtti_s, std::size_t lives) {
  constexpr int kRuns = 60;
  Table out{std::vector<double>(lives), std::vector<double>(lives)};
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    TestRandom random(seed);
    std::vector<PastLife> history;
    for (std::size_t i = 0; i < lives; ++i) {
      Cadence cadence = Cadence::create({}, history).value();
      if (i > 0) cadence.remember(std::vector<SaveCost>(2, kCost), {});
      const Lived lived = live(cadence, random.exponential(mtti_s));
      history.push_back(lived.life);
      out.interval_s[i] += lived.interval_s / kRuns;
      out.kept[i] += lived.kept_s / mtti_s / kRuns;
    }
  }
  return out;
}

TEST(FirstFailures, ShortenTheIntervalAtOnceWhateverNobodySaid) {
  for (const double mtti_s : {1200.0, 3600.0, 14400.0}) {
    const double best_s = exact_interval_s(kCost.stall_s, mtti_s);
    const double best =
        efficiency(best_s, {.stall_s = kCost.stall_s, .mtti_s = mtti_s, .persist_s = kCost.persist_s});
    const Table table = lives_of(mtti_s, 8);
    EXPECT_LT(table.interval_s[1], table.interval_s[0] / 2) << mtti_s;
    for (std::size_t i = 1; i < table.interval_s.size(); ++i)
      EXPECT_LE(table.interval_s[i], table.interval_s[i - 1]) << mtti_s << ", life " << i + 1;
    EXPECT_LT(table.interval_s[2], 4 * best_s) << mtti_s;
    EXPECT_LT(table.interval_s[7], 2 * best_s) << mtti_s;
    EXPECT_GT(table.kept[2], 0.75 * best) << mtti_s;
  }
}

TEST(FirstFailures, NeverLengthenAnInterval) {
  for (const double life_s : {50.0, 1000.0, 90000.0, 1e7}) {
    for (const double stall_s : {0.01, 2.0, 100.0}) {
      std::vector<PastLife> history;
      double before_s = HUGE_VAL;
      for (int failures = 0; failures < 6; ++failures) {
        Cadence cadence = Cadence::create({}, history).value();
        cadence.start(0, 0, 0);
        for (int i = 0; i < 5; ++i) cadence.on_cost({.stall_s = stall_s}, 0);
        EXPECT_LE(cadence.plan().interval_s, before_s) << life_s << " " << stall_s << " " << failures;
        EXPECT_LE(cadence.plan().interval_s, std::max(3600.0, 50 * stall_s));
        before_s = cadence.plan().interval_s;
        history.push_back({.seconds = life_s, .saves = 3});
      }
    }
  }
}

TEST(FirstFailures, AreCappedUntilAPersonSaysMore) {
  const PastLife rare[] = {{.seconds = 1e7, .saves = 9}};
  const auto interval_s = [&](const CadenceOptions& options) {
    Cadence cadence = Cadence::create(options, rare).value();
    cadence.start(0, 0, 0);
    for (int i = 0; i < 3; ++i) cadence.on_cost({.stall_s = 30}, 0);
    return cadence.plan();
  };
  EXPECT_EQ(interval_s({}).interval_s, 3600);
  EXPECT_EQ(interval_s({}).bound_by, BoundBy::no_failures);
  EXPECT_EQ(interval_s({.mtti_s = HUGE_VAL}).interval_s, 3600);
  EXPECT_GT(interval_s({.mtti_s = 1e7}).interval_s, 7200);
  EXPECT_EQ(interval_s({.every_max_s = 7200}).interval_s, 7200);
  EXPECT_GT(interval_s({.rpo_s = 20000}).interval_s, 7200);
}

}  // namespace
}  // namespace unbroken
