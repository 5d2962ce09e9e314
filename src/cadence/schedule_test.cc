#include "cadence/schedule.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

TEST(Schedule, ReadsStepsDurationsAndAuto) {
  EXPECT_EQ(Schedule::parse("auto").value().kind(), Schedule::Kind::automatic);
  EXPECT_EQ(Schedule::parse("50").value().kind(), Schedule::Kind::steps);
  EXPECT_EQ(Schedule::parse("10min").value().interval_s(), 600);
  for (const char* text : {"0", "-1", "", "0s", "-5min", "often", "inf", "10 min", "1.5"})
    EXPECT_TRUE(Schedule::parse(text).is(Code::bad_argument)) << text;
}

TEST(Schedule, SavesAtMultiplesWhateverElseWasSaved) {
  Schedule schedule = Schedule::every_steps(50).value();
  schedule.start(0);
  for (std::uint64_t step = 1; step <= 200; ++step) {
    EXPECT_EQ(schedule.is_due(step, 1.0 * static_cast<double>(step)), step % 50 == 0) << step;
    if (step == 1 || step == 73) schedule.on_save(static_cast<double>(step));
  }
}

// failure: Lightning-AI/pytorch-lightning#21699
TEST(Schedule, CountsADurationFromTheLastSaveOrSkip) {
  Schedule schedule = Schedule::parse("10s").value();
  schedule.start(100);
  EXPECT_FALSE(schedule.is_due(1, 109.9));
  EXPECT_TRUE(schedule.is_due(2, 110));
  schedule.on_save(112);
  EXPECT_FALSE(schedule.is_due(3, 121.9));
  EXPECT_TRUE(schedule.is_due(4, 122));
}

TEST(Schedule, LeavesAutomaticSavesToTheCadence) {
  const Schedule schedule = Schedule::automatic();
  EXPECT_FALSE(schedule.is_due(1, 1e9));
  EXPECT_EQ(schedule.interval_s(), 0);
  EXPECT_EQ(schedule.steps(), 0u);
}

}  // namespace
}  // namespace unbroken
