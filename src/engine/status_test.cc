#include "engine/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace unbroken {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using State = Health::State;

TEST(Status, IsGreenUntilSomethingHappens) {
  Status status;
  EXPECT_EQ(status.health().state, State::green);
  EXPECT_THAT(status.health().why, IsEmpty());
  EXPECT_EQ(status.newest(), std::nullopt);
}

TEST(Status, IsRedFromAFailedSaveToTheNextGoodOne) {
  Status status;
  status.saved({1, 1, 0}, {0.1, 0.2});
  status.save_failed({2, 1, 0}, Error(Code::no_space, "no space left"));
  EXPECT_EQ(status.health().state, State::red);
  EXPECT_THAT(status.health().why, ElementsAre("save 2.a1 failed: no space left"));
  EXPECT_EQ(status.health().saves_failed, 1u);
  EXPECT_EQ(status.newest()->name(), "1.a1");
  status.verified({1, 1, 0}, 1);
  EXPECT_EQ(status.health().state, State::red) << "an older one that is whole changes nothing";
  status.saved({3, 1, 0}, {0.1, 0.2});
  EXPECT_EQ(status.health().state, State::green);
  EXPECT_EQ(status.health().saves_failed, 1u) << "counted for good";
}

TEST(Status, IsYellowFromAWorryToTheNextSaveThatWasReadBack) {
  Status status;
  status.worry("old checkpoints could not be removed");
  EXPECT_EQ(status.health().state, State::yellow);
  status.saved({1, 1, 0}, {0, 0});
  EXPECT_EQ(status.health().state, State::yellow);
  status.verified({1, 1, 0}, 1);
  EXPECT_EQ(status.health().state, State::green);
}

TEST(Status, IsRedForGoodOnceFenced) {
  Status status;
  status.fenced(Error(Code::fenced, "attempt 2 took over"));
  status.fenced(Error(Code::fenced, "attempt 3 took over"));
  status.saved({1, 1, 0}, {0, 0});
  status.verified({1, 1, 0}, 1);
  EXPECT_EQ(status.health().state, State::red);
  EXPECT_EQ(status.fence()->what(), "attempt 2 took over") << "the first one counts";
}

TEST(Status, NamesEveryReason) {
  Status status;
  status.worry("a worry");
  status.save_failed({2, 1, 0}, Error(Code::no_space, "no space left"));
  status.fenced(Error(Code::fenced, "attempt 2 took over"));
  EXPECT_THAT(status.health().why, SizeIs(3));
}

TEST(Status, TellsAFailureOnceAndWhatStands) {
  Status status;
  status.save_failed({1, 1, 0}, Error(Code::unavailable, "EIO"));
  EXPECT_THAT(status.take_messages(true), ElementsAre(HasSubstr("no checkpoint stands yet")));
  EXPECT_THAT(status.take_messages(true), IsEmpty());
  const auto failure = status.take_failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code(), Code::unavailable);
  EXPECT_EQ(failure->what(), "save 1.a1: EIO");
  EXPECT_FALSE(status.take_failure());
  status.saved({2, 1, 0}, {0, 0});
  status.save_failed({3, 1, 0}, Error(Code::unavailable, "EIO"));
  EXPECT_THAT(status.take_messages(true), ElementsAre(HasSubstr("2.a1 stands; training goes on")));
}

TEST(Status, DoesNotSayThatTrainingGoesOnWhereItEnds) {
  Status status;
  status.save_failed({3, 1, 0}, Error(Code::no_space, "ENOSPC"));
  EXPECT_THAT(status.take_messages(false),
              ElementsAre("warning: save 3.a1 failed: ENOSPC; no checkpoint stands yet"));
  status.save_failed({4, 1, 0}, Error(Code::no_space, "ENOSPC"), true);
  EXPECT_EQ(status.health().saves_failed, 2u);
  EXPECT_EQ(status.take_failure()->what(), "save 3.a1: ENOSPC") << "that of save 4.a1 was raised";
}

TEST(Status, KeepsABoundedNumberOfMessages) {
  Status status;
  for (int i = 0; i < 1000; ++i) status.warn("again");
  EXPECT_LE(status.take_messages(true).size(), 100u);
}

TEST(Status, TellsTheEndOfEachSaveOnce) {
  Status status;
  EXPECT_THAT(status.take_ends(), IsEmpty());
  status.saved({1, 1, 0}, {.exposed_s = 0.25, .durable_s = 2.0});
  status.save_failed({2, 1, 0}, Error(Code::no_space, "ENOSPC"));
  status.saved({3, 1, 0}, {.exposed_s = 0.5, .durable_s = 3.0});
  status.save_failed({3, 1, 0}, Error(Code::no_space, "a tag of it: ENOSPC"));
  const auto ends = status.take_ends();
  ASSERT_THAT(ends, SizeIs(3)) << "a tag is no save";
  EXPECT_EQ(ends[0]->exposed_s, 0.25);
  EXPECT_FALSE(ends[1]);
  EXPECT_EQ(ends[2]->durable_s, 3.0);
  EXPECT_THAT(status.take_ends(), IsEmpty());
  for (std::uint64_t step = 4; step < 1000; ++step) status.saved({step, 1, 0}, {.exposed_s = 0.5});
  EXPECT_LE(status.take_ends().size(), 16u) << "of a run that never asks";
}

TEST(Status, IsYellowWhileAPromiseCannotBeKept) {
  Status status;
  status.promise_breaks("rpo: 1m 0s cannot be kept");
  status.promise_breaks("rpo: 1m 0s cannot be kept, still");
  status.saved({1, 1, 0}, {});
  status.verified({1, 1, 0}, 1);
  EXPECT_EQ(status.health().state, State::yellow);
  EXPECT_THAT(status.take_messages(true), ElementsAre("warning: rpo: 1m 0s cannot be kept")) << "said once";
  status.promise_breaks("");
  EXPECT_EQ(status.health().state, State::green);
}

TEST(Status, SumsUpTheSavesOfALife) {
  Status status;
  status.saved({1, 1, 0}, {.exposed_s = 0.25, .durable_s = 2.0, .bytes = 10});
  status.verified({1, 1, 0}, 4);
  EXPECT_EQ(status.saves().last_verified_s, 4);
  status.saved({2, 1, 0}, {.exposed_s = 0.5, .durable_s = 3.0, .bytes = 20});
  status.verified({1, 1, 0}, 9);
  status.save_skipped();
  status.save_failed({3, 1, 0}, Error(Code::no_space, "no space left"));
  const Status::Saves saves = status.saves();
  EXPECT_EQ(saves.committed, 2u);
  EXPECT_EQ(saves.failed, 1u);
  EXPECT_EQ(saves.skipped, 1u);
  EXPECT_EQ(saves.exposed_s, 0.75);
  EXPECT_EQ(saves.last->step, 2u);
  EXPECT_EQ(saves.last_cost.bytes, 20u);
  EXPECT_EQ(saves.last_verified_s, std::nullopt) << "the one that was read back is older";
}

}  // namespace
}  // namespace unbroken
