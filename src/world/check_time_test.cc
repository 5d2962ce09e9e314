#include "world/check_time.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

TEST(CheckTime, RefusesWhatIsOverOrGivenUp) {
  const Instant now{std::chrono::seconds(10)};
  std::stop_source stop;
  EXPECT_TRUE(check_time(now, {{std::chrono::seconds(11)}, stop.get_token()}).ok());
  EXPECT_TRUE(check_time(now, {now, stop.get_token()}).is(Code::late));
  stop.request_stop();
  EXPECT_TRUE(check_time(now, {{std::chrono::seconds(11)}, stop.get_token()}).is(Code::stopped));
}

}  // namespace
}  // namespace unbroken
