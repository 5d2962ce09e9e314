#include "cli/progress.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

TEST(Progress, ShowsShareRateAndTimeLeft) {
  EXPECT_EQ(progress_text(1 << 29, 1 << 30, 2),
            "[============            ]  50 %  512.0 MiB of 1.0 GiB  256.0 MiB/s  2.0s left");
  EXPECT_EQ(progress_text(1 << 30, 1 << 30, 4),
            "[========================] 100 %  1.0 GiB of 1.0 GiB  256.0 MiB/s  0ms left");
}

TEST(Progress, PromisesNothingBeforeAnythingWasRead) {
  const std::string text = progress_text(0, 1000, 0);
  EXPECT_EQ(text.find("left"), std::string::npos);
  EXPECT_NE(text.find("  0 %"), std::string::npos);
}

}  // namespace
}  // namespace unbroken
