// Saves of which a part is copied while the training goes on.
#include "base/mutant.h"
#include "engine/test_run.h"

namespace unbroken {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Stage = Saving::Stage;

/// Saves `step` with the weight to be copied later.
std::shared_ptr<Saving> save_later(TestLife& me, std::uint64_t step) {
  me.model.put(step);
  me.model.is_copied_later = true;
  return me.engine->save(step, me.model.view(), {}, me.by()).value();
}

TEST(SaveLater, IsTheStateOfItsStepOnceTheFenceWasPassed) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    for (std::uint64_t step = 1; step <= 6; ++step) {
      const auto saving = save_later(me, step);
      me.engine->fence();
      me.model.put(77);  // the optimizer's step
      ASSERT_TRUE(saving->wait(Stage::verified, me.by()).ok());
      EXPECT_FALSE(saving->error());
    }
    EXPECT_GT(me.engine->stats().saves.last_cost.later_bytes, 0u);
    EXPECT_THAT(me.engine->stats().distrusted, IsEmpty());
  });
  EXPECT_EQ(run.start().value(), 6u);
}

TEST(SaveLater, NeedsNoFenceToBecomeDurable) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    const auto saving = save_later(me, 1);
    ASSERT_TRUE(saving->wait(Stage::durable, me.by()).ok());
    EXPECT_TRUE(saving->has_reached(Stage::durable));
    ASSERT_TRUE(me.close().ok());
  });
  EXPECT_EQ(run.start().value(), 1u);
}

// failure: pytorch/pytorch#144657
TEST(SaveLater, OfWhatWasWrittenBeforeTheFenceFailsAndIsMadeGood) {
  int written_before_copied = 0;  // the schedule decides
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TestRun run(seed);
    run.live([&](TestLife& me) {
      ASSERT_TRUE(me.restore().ok());
      ASSERT_TRUE(me.save_fully(1).ok());
      const auto saving = save_later(me, 2);
      me.model.put(77);  // by something that has no hook
      me.engine->fence();
      ASSERT_TRUE(saving->wait(Stage::durable, me.by()).ok());
      if (!saving->error()) return;
      ++written_before_copied;
      EXPECT_THAT(saving->error()->what(), HasSubstr("model.weight changed"));
      ASSERT_TRUE(me.engine->drain(me.by()).ok());
      EXPECT_THAT(me.engine->stats().distrusted, ElementsAre("model.weight"));
      EXPECT_THAT(me.engine->status().take_messages(true), Contains(HasSubstr("model.weight changed")));
      EXPECT_TRUE(me.engine->is_due(3)) << "at once";
      const auto again = save_later(me, 3);
      EXPECT_TRUE(again->has_reached(Stage::staged)) << "from now on it is copied at once";
      me.model.put(77);
      ASSERT_TRUE(again->wait(Stage::verified, me.by()).ok());
      EXPECT_FALSE(again->error());
    });
    EXPECT_GE(run.start().value(), 2u);  // the right bytes of it
  }
  EXPECT_GT(written_before_copied, 0);
}

TEST(SaveLater, ThatIsANewBestIsCopiedAtOnce) {
  EngineOptions options = test_options();
  options.open.policy.best = BestRule{"loss", true};
  TestRun run;
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        me.model.put(1);
        me.model.is_copied_later = true;
        me.model.be_finite(false);
        const auto saving = me.engine->save(1, me.model.view(), {.metrics = {{"loss", 1}}}, me.by()).value();
        EXPECT_TRUE(saving->has_reached(Stage::staged));
        EXPECT_TRUE(me.engine->is_best({{"loss", 2}})) << "one that is not finite is no best";
        ASSERT_TRUE(me.close().ok());
      },
      options);
}

#ifdef UNBROKEN_WITH_MUTANTS
TEST(SaveLater, WithoutTheFenceTheProofFindsIt) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    active_mutant = "fence_does_not_wait";
    const auto saving = save_later(me, 1);
    me.engine->fence();
    me.model.put(77);
    (void)saving->wait(Stage::durable, me.by());
    active_mutant = {};
    EXPECT_TRUE(saving->error());
  });
}
#endif

}  // namespace
}  // namespace unbroken
