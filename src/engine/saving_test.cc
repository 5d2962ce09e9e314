#include "engine/saving.h"

#include <gtest/gtest.h>

#include <memory>

#include "world/test_executor.h"

namespace unbroken {
namespace {

using Stage = Saving::Stage;

// failure: NVIDIA/Megatron-LM#1763
TEST(Saving, ReachesOneStageAfterTheOther) {
  SteppedExecutor executor(1);
  Saving saving({1200, 3, 1}, executor);
  EXPECT_EQ(saving.name(), "1200.a3.t1");
  EXPECT_EQ(saving.step(), 1200u);
  EXPECT_FALSE(saving.has_reached(Stage::staged));
  saving.reach(Stage::staged);
  EXPECT_TRUE(saving.has_reached(Stage::staged));
  EXPECT_FALSE(saving.is_settled(Stage::durable));
  saving.reach(Stage::verified);
  EXPECT_TRUE(saving.has_reached(Stage::durable));
  EXPECT_TRUE(saving.is_settled(Stage::verified));
}

TEST(Saving, CountsWhoWaits) {
  SteppedExecutor executor(1);
  const auto waiting = std::make_shared<std::atomic<unsigned>>(0);
  Saving saving({1, 1, 0}, executor, waiting);
  EXPECT_FALSE(saving.wait(Stage::durable, {}).ok()) << "nothing happens";
  EXPECT_EQ(waiting->load(), 0u);
  unsigned seen = 0;
  ASSERT_TRUE(executor.post(Lane::strand, [&] {
    seen = waiting->load();
    saving.reach(Stage::durable);
  }));
  EXPECT_TRUE(saving.wait(Stage::durable, {}).ok());
  EXPECT_EQ(seen, 1u);
  EXPECT_EQ(waiting->load(), 0u);
}

TEST(Saving, IsSettledByAnErrorAndKeepsWhatItReached) {
  SteppedExecutor executor(1);
  Saving saving({1, 1, 0}, executor);
  saving.reach(Stage::durable);
  saving.fail(Error(Code::corrupt, "first"));
  saving.fail(Error(Code::unavailable, "second"));
  EXPECT_TRUE(saving.has_reached(Stage::durable));
  EXPECT_FALSE(saving.has_reached(Stage::verified));
  EXPECT_TRUE(saving.is_settled(Stage::verified));
  EXPECT_EQ(saving.error()->what(), "first");
  EXPECT_TRUE(saving.wait(Stage::verified, {}).ok());
}

TEST(Saving, WakesWhoeverWaits) {
  SteppedExecutor executor(1);
  Saving saving({1, 1, 0}, executor);
  executor.post(Lane::io, [&] { saving.reach(Stage::durable); });
  EXPECT_TRUE(saving.wait(Stage::durable, {}).ok());
  EXPECT_EQ(executor.notified, 1u);
  EXPECT_FALSE(saving.wait(Stage::verified, {}).ok()) << "nothing is to come";
}

TEST(Saving, TellsListenersOfEveryChange) {
  SteppedExecutor executor(1);
  Saving saving({1, 1, 0}, executor);
  int told = 0, late = 0;
  saving.on_change([&] { ++told; });
  EXPECT_EQ(told, 0);
  saving.reach(Stage::staged);
  saving.on_change([&] { ++late; });
  EXPECT_EQ(late, 1) << "there was news already";
  saving.reach(Stage::durable);
  saving.reach(Stage::verified);
  EXPECT_EQ(told, 3);
  EXPECT_EQ(late, 3);
}

TEST(Saving, LetsGoOfListenersAfterTheLastNews) {
  SteppedExecutor executor(1);
  for (const bool is_failing : {false, true}) {
    Saving saving({1, 1, 0}, executor);
    auto held = std::make_shared<int>(0);
    saving.on_change([held] {});
    EXPECT_EQ(held.use_count(), 2);
    if (is_failing) {
      saving.fail(Error(Code::no_space, "full"));
    } else {
      saving.reach(Stage::verified);
    }
    EXPECT_EQ(held.use_count(), 1);
    saving.on_change([held] {});
    EXPECT_EQ(held.use_count(), 1);
  }
}

}  // namespace
}  // namespace unbroken
