// A journal that goes away under a living run: nothing is acknowledged any more, and training goes on.
#include "engine/test_run.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

void remove_slots(TestRun& run, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t slot = first; slot <= last; ++slot)
    ASSERT_TRUE(run.world.observer().unlink(slot_key(slot)).ok());
}

TEST(LostJournal, FailsEachSaveAndTheEnd) {
  for (const bool is_all : {false, true}) {
    TestRun run;
    run.live([&](TestLife& me) {
      ASSERT_TRUE(me.restore().ok());
      ASSERT_TRUE(me.save_fully(1).ok());
      ASSERT_TRUE(me.save_fully(2).ok());
      ASSERT_TRUE(me.engine->drain(me.by()).ok());
      remove_slots(run, 0, is_all ? run.journal().next_slot() - 1 : 0);
      for (const std::uint64_t step : {3, 4}) {
        ASSERT_TRUE(me.train(step).ok());
        EXPECT_TRUE(me.save_fully(step).is(Code::journal_unreadable)) << step;
      }
      EXPECT_EQ(me.newest(), "2.a1");
      const Health health = me.engine->status().health();
      EXPECT_EQ(health.state, Health::State::red);
      EXPECT_EQ(health.saves_failed, 2U);
      const auto lines = me.engine->status().take_messages(true);
      EXPECT_THAT(lines, testing::Contains(HasSubstr("next: unbroken doctor /runs/mlp")));
      EXPECT_TRUE(me.close().is(Code::journal_unreadable));
    });
  }
}

TEST(LostJournal, IsNoticedByWhateverIsAppended) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    ASSERT_TRUE(me.engine->drain(me.by()).ok());
    remove_slots(run, 0, 0);
    EXPECT_TRUE(me.save_fully(1, {.tags = {"kept"}}).is(Code::journal_unreadable));
    EXPECT_EQ(me.engine->status().health().state, Health::State::red);
    EXPECT_TRUE(me.close().is(Code::journal_unreadable));
  });
}

TEST(LostJournal, ThatIsThereAgainIsNoLoss) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    ASSERT_TRUE(me.engine->drain(me.by()).ok());
    Fs& fs = run.world.observer();
    ASSERT_TRUE(fs.rename(slot_key(0), "journal/away").ok());
    EXPECT_TRUE(me.save_fully(2).is(Code::journal_unreadable));
    ASSERT_TRUE(fs.rename("journal/away", slot_key(0)).ok());
    ASSERT_TRUE(me.save_fully(3).ok());
    EXPECT_EQ(me.engine->status().health().state, Health::State::green);
    EXPECT_TRUE(me.close().ok());
  });
  EXPECT_EQ(run.start().value(), 3U);
}

}  // namespace
}  // namespace unbroken
