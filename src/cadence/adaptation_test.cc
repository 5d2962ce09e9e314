// Whole runs, life after life, whose costs or failures change half-way. Judged by waste: efficiency is too
// flat, an interval that never adapts keeps 94 to 99 % of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cadence/cadence.h"
#include "cadence/formulas.h"
#include "cadence/random_test.h"

namespace unbroken {
namespace {

constexpr int kSeeds = 1000;
constexpr double kStep_s = 10;

struct Change {
  double stall_before_s, stall_after_s;
  double mtti_before_s, mtti_after_s;
  int failures_before;  ///< the change comes with this failure
  int failures_after;   ///< and the judgement after this many more
  int saves_after;      ///< or this many saves, where it is not 0
};

/// One job with exponential failures, noisy costs and a Cadence that sees only what a real one would see.
class Job {
 public:
  Job(const Change& change, std::uint64_t seed, bool is_told) : change_(change), random_(seed) {
    if (is_told) options_.mtti_s = 4 * change.mtti_before_s;
  }

  /// The interval that is planned at the moment of judgement.
  double run() {
    while (true) {
      Cadence cadence = Cadence::create(options_, history_).value();
      if (live(cadence)) return cadence.plan().interval_s;
    }
  }

 private:
  bool is_changed() const { return static_cast<int>(history_.size()) >= change_.failures_before; }

  bool live(Cadence& cadence) {
    const double dies_s = random_.exponential(is_changed() ? change_.mtti_after_s : change_.mtti_before_s);
    PastLife life;
    cadence.start(0, 0, 0);
    double now_s = 0;
    for (std::uint64_t step = 1; now_s < dies_s; ++step) {
      now_s += kStep_s;
      if (step != 1 && !cadence.should_save(step, now_s)) continue;
      const double stall_s =
          (is_changed() ? change_.stall_after_s : change_.stall_before_s) * (0.75 + 0.5 * random_.uniform());
      now_s += stall_s;
      if (now_s >= dies_s) break;
      cadence.on_save(now_s);
      life.saves += 1;
      cadence.on_cost({.stall_s = stall_s, .persist_s = stall_s}, now_s);
      if (is_changed() && ++saves_after_ == change_.saves_after) return true;
    }
    life.seconds = dies_s;
    history_.push_back(life);
    const int after = static_cast<int>(history_.size()) - change_.failures_before;
    if (change_.saves_after > 0 || after < change_.failures_after) return false;
    // The next life begins with this history, and with its first saves it knows the cost again.
    cadence = Cadence::create(options_, history_).value();
    cadence.start(0, 0, 0);
    for (int i = 0; i < 2; ++i) cadence.on_cost({.stall_s = change_.stall_after_s}, 0);
    return true;
  }

  Change change_;
  CadenceOptions options_;
  TestRandom random_;
  std::vector<PastLife> history_;
  int saves_after_ = 0;
};

/// `is_told`: a person said how often it dies, four times too rarely; else nobody did.
double median_excess_waste(const Change& change, bool is_told = true) {
  const JobTimes after{.stall_s = change.stall_after_s, .mtti_s = change.mtti_after_s};
  const double best = waste_of(exact_interval_s(after.stall_s, after.mtti_s), after).sum();
  std::vector<double> excess;
  for (int seed = 0; seed < kSeeds; ++seed)
    excess.push_back(
        waste_of(Job(change, static_cast<std::uint64_t>(seed), is_told).run(), after).sum() / best - 1);
  std::nth_element(excess.begin(), excess.begin() + kSeeds / 2, excess.end());
  return excess[kSeeds / 2];
}

double excess_without_adapting(const Change& change) {
  const JobTimes after{.stall_s = change.stall_after_s, .mtti_s = change.mtti_after_s};
  const double best = waste_of(exact_interval_s(after.stall_s, after.mtti_s), after).sum();
  return waste_of(exact_interval_s(change.stall_before_s, change.mtti_before_s), after).sum() / best - 1;
}

constexpr Change kDearer{2, 20, 4000, 4000, 8, 0, 3};
constexpr Change kCheaper{20, 2, 4000, 4000, 8, 0, 3};
constexpr Change kSicker{2, 2, 4000, 800, 12, 10, 0};
constexpr Change kHealthier{2, 2, 800, 4000, 12, 10, 0};

void expect_small(const Change& change, const std::string& name) {
  for (const bool is_told : {true, false}) {
    const double excess = median_excess_waste(change, is_told);
    EXPECT_LE(excess, 0.10) << name << (is_told ? "" : ", prior assumed");
    ::testing::Test::RecordProperty(name + (is_told ? "" : "_prior_assumed"), std::to_string(excess));
  }
}

TEST(Adaptation, FollowsATenfoldCostWithinThreeSaves) {
  EXPECT_GT(excess_without_adapting(kDearer), 0.5);
  expect_small(kDearer, "dearer");
  expect_small(kCheaper, "cheaper");
}

TEST(Adaptation, FollowsAFivefoldFailureRateWithinTenFailures) {
  EXPECT_GT(excess_without_adapting(kSicker), 0.2);
  expect_small(kSicker, "sicker");
  expect_small(kHealthier, "healthier");
}

}  // namespace
}  // namespace unbroken
