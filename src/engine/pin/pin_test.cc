#include "engine/pin/pin.h"

#include "engine/read/reader.h"
#include "engine/test_run.h"

namespace unbroken {
namespace {

EngineOptions keeping_one() {
  EngineOptions options = test_options();
  options.open.policy = {.keep_last = 1, .verified_min = 1};
  return options;
}

void pass(const Seams& seams, Duration time) {
  (void)seams.executor.wait([] { return false; }, seams.within(time));
}

/// A reader pins 1.a1 and reads for an hour, or is killed at once; an owner goes on. Is it there afterwards?
bool is_kept(bool is_killed, bool is_released = false) {
  TestRun run;
  run.train(1, 1, keeping_one());
  SimProcess& reader = run.world.spawn("reader", [&](SimProcess& me) {
    FileStore store(me.fs(), me.clock(), me.random("store"), {.path = "/runs/mlp"});
    const Seams seams{me.clock(), me.random("engine"), me.executor(), store, me};
    const Deadline by = seams.within(std::chrono::hours(10));
    const JournalRead read = look_at_run(seams, by).value();
    const auto held = HeldPin::take(seams, read.history, SaveId{1, 1, 0}, by).value();
    if (is_released) {
      EXPECT_TRUE(held->release(by).ok());
      return;
    }
    pass(seams, std::chrono::hours(2));
  });
  run.begin(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        pass(me.seams, std::chrono::seconds(1));
        ASSERT_TRUE(me.save_fully(2).ok());
        ASSERT_TRUE(me.engine->drain(me.by()).ok());
        if (!is_released) {
          EXPECT_NE(run.journal().find(SaveId{1, 1, 0}), nullptr) << "a reader has it";
        }
        if (is_killed) reader.kill();
        for (std::uint64_t step = 3; step <= 5; ++step) {
          pass(me.seams, kPinLasts + kPinBeat);
          ASSERT_TRUE(me.save_fully(step).ok());
          ASSERT_TRUE(me.engine->drain(me.by()).ok());
        }
        ASSERT_TRUE(me.close().ok());
      },
      keeping_one());
  EXPECT_EQ(run.world.run().failure, "");
  const bool is_there = run.journal().find(SaveId{1, 1, 0}) != nullptr;
  if (!is_there) {
    EXPECT_TRUE(run.names("pins").empty()) << "its heartbeat goes too";
  }
  return is_there;
}

TEST(Pin, KeepsACheckpointAsLongAsItsReaderLives) {
  EXPECT_TRUE(is_kept(false));
}

TEST(Pin, LapsesWithItsReader) {
  EXPECT_FALSE(is_kept(true));
}

TEST(Pin, EndsWhenItIsReleased) {
  EXPECT_FALSE(is_kept(false, true));
}

}  // namespace
}  // namespace unbroken
