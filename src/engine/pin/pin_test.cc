#include "engine/pin/pin.h"

#include "engine/pin/watch.h"
#include "engine/read/reader.h"
#include "engine/test_run.h"

namespace unbroken {
namespace {

enum class Loader : std::uint8_t { lives, is_busy, is_killed, lets_go };

/// A reader pins 1.a1 and reads for hours, or what `loader` says; an owner goes on. Is it there afterwards?
bool is_kept(Loader loader) {
  TestRun run;
  run.train(1, 1, keeping_one());
  SimProcess& reader = run.world.spawn("reader", [&](SimProcess& me) {
    FileStore store(me.fs(), me.clock(), me.random("store"), {.path = "/runs/mlp"});
    const Seams seams{me.clock(), me.random("engine"), me.executor(), store, me};
    const Deadline by = seams.within(std::chrono::hours(10));
    const JournalRead read = look_at_run(seams, by).value();
    const auto held = HeldPin::take(seams, read.history, SaveId{1, 1, 0}, std::nullopt, by).value();
    if (loader == Loader::lets_go) {
      EXPECT_TRUE(held->release(by).ok());
      return;
    }
    const auto read_on = [&] { pass(seams, std::chrono::hours(2)); };
    for (unsigned i = 0; loader == Loader::is_busy && i < seams.executor.width(Lane::io); ++i)
      EXPECT_TRUE(seams.executor.post(Lane::io, read_on));
    read_on();
  });
  run.begin(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        pass(me.seams, std::chrono::seconds(1));
        ASSERT_TRUE(me.save_fully(2).ok());
        ASSERT_TRUE(me.engine->drain(me.by()).ok());
        if (loader != Loader::lets_go) {
          EXPECT_NE(run.journal().find(SaveId{1, 1, 0}), nullptr) << "a reader has it";
        }
        if (loader == Loader::is_killed) reader.kill();
        for (std::uint64_t step = 3; step <= 5; ++step) {
          pass(me.seams, kPinLasts + kPinLasts / kPinBeats);
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
  EXPECT_TRUE(is_kept(Loader::lives));
}

TEST(Pin, BeatsWhileTheReaderFillsItsLanes) {
  EXPECT_TRUE(is_kept(Loader::is_busy));
}

TEST(Pin, LapsesWithItsReader) {
  EXPECT_FALSE(is_kept(Loader::is_killed));
}

TEST(Pin, EndsWhenItIsReleased) {
  EXPECT_FALSE(is_kept(Loader::lets_go));
}

/// The journal of a run whose 1.a1 a reader pinned that is dead.
History left_pinned(TestRun& run) {
  run.train(1, 1, keeping_one());
  run.live([](TestLife& me) {
    const JournalRead read = look_at_run(me.seams, me.by()).value();
    ASSERT_TRUE(HeldPin::take(me.seams, read.history, SaveId{1, 1, 0}, std::nullopt, me.by()).ok());
  });
  return run.journal();
}

/// What two commands come to, of which the second goes on with what the first wrote down.
std::size_t lapsed_of_two(const History& history, const char* first, const char* second, Duration between,
                          std::string_view boot = "boot", bool is_torn = false) {
  const auto look = [](const char* beat) {
    return [beat](Nonce) -> Result<std::optional<std::string>> {
      return beat == nullptr ? std::nullopt : std::optional<std::string>(beat);
    };
  };
  const Instant now{std::chrono::hours(7)};
  PinWatch watch;
  EXPECT_TRUE(watch.is_empty());
  EXPECT_TRUE(watch.lapsed(history, look(first), now, kPinLasts).empty()) << "it was never seen before";
  std::string kept = watch.encode("boot");
  if (is_torn) kept.pop_back();
  PinWatch later = PinWatch::decode(kept, boot);
  return later.lapsed(history, look(second), now + between, kPinLasts).size();
}

TEST(PinWatch, GoesOnWhereAnEarlierCommandEnded) {
  TestRun run;
  const History history = left_pinned(run);
  EXPECT_EQ(lapsed_of_two(history, "1", "1", kPinLasts), 1u);
  EXPECT_EQ(lapsed_of_two(history, nullptr, nullptr, kPinLasts), 1u) << "there is no heartbeat at all";
  EXPECT_EQ(lapsed_of_two(history, "1", "1", kPinLasts - Duration(1)), 0u) << "not long enough";
  EXPECT_EQ(lapsed_of_two(history, "1", "2", kPinLasts), 0u) << "it lives";
  EXPECT_EQ(lapsed_of_two(history, "1", nullptr, kPinLasts), 0u);
  EXPECT_EQ(lapsed_of_two(history, nullptr, "1", kPinLasts), 0u);
  EXPECT_EQ(lapsed_of_two(history, "1", "1", kPinLasts, "another boot"), 0u) << "its clock says nothing here";
  EXPECT_EQ(lapsed_of_two(history, "1", "1", kPinLasts, "boot", true), 0u);
  EXPECT_EQ(lapsed_of_two(history, "1", "1", -Duration(1)), 0u) << "a clock that went back";
}

/// What the owner saw of heartbeats is not kept over a restart: a dead reader's pin lasts longer then, never
/// shorter.
TEST(PinWatch, OfATrainingBeginsAnewWithEachLife) {
  TestRun run;
  left_pinned(run);
  std::uint64_t step = 1;
  const auto live_for = [&](Duration time) {
    run.live(
        [&](TestLife& me) {
          ASSERT_TRUE(me.restore().ok());
          for (const Duration before : {Duration(0), time}) {
            pass(me.seams, before);
            ASSERT_TRUE(me.save_fully(++step).ok());
            ASSERT_TRUE(me.engine->drain(me.by()).ok());
          }
          ASSERT_TRUE(me.close().ok());
        },
        keeping_one());
    return run.journal().find(SaveId{1, 1, 0}) != nullptr;
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(live_for(kPinLasts / 2));
  EXPECT_FALSE(live_for(kPinLasts + kPinLasts / kPinBeats));
  EXPECT_TRUE(run.names("pins").empty());
}

TEST(Heartbeat, OfNoPinIsSwept) {
  TestRun run;
  left_pinned(run);
  const std::vector<std::string> held = run.names("pins");
  ASSERT_EQ(held.size(), 1u);
  run.world.disk().plant("pins/00000000000000aa", "7\n");
  run.world.disk().plant("pins/00000000000000aa.0123456789abcdef.tmp", "8");
  run.world.disk().plant("pins/notes", "not ours");
  EXPECT_TRUE(run.start(keeping_one()).ok());
  EXPECT_THAT(run.names("pins"), testing::UnorderedElementsAre(held.front(), "notes"));
}

}  // namespace
}  // namespace unbroken
