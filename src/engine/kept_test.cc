// What a life keeps: the best, the steps of a grid, what was tagged; and what it does not count.
#include <cmath>

#include "engine/test_run.h"

namespace unbroken {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using Stage = Saving::Stage;

TEST(Save, IsForgottenOnceALaterStepIsSaved) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    std::weak_ptr<Saving> first = me.save(1).value();
    ASSERT_TRUE(me.engine->drain(me.by()).ok());
    EXPECT_FALSE(first.expired());
    ASSERT_TRUE(me.save_fully(2).ok());
    ASSERT_TRUE(me.engine->drain(me.by()).ok());
    EXPECT_TRUE(first.expired()) << "a long life does not grow by its saves";
  });
}

// failure: keras-team/keras#11420
TEST(Save, OfANewBestIsAskedForOnce) {
  EngineOptions options = test_options();
  options.open.policy.best = BestRule{"loss", true};
  TestRun run;
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        const auto with = [](double loss) { return SaveWish{.metrics = {{"loss", loss}, {"other", 0}}}; };
        EXPECT_FALSE(me.engine->is_best({{"other", 0}}));
        EXPECT_TRUE(me.engine->is_best({{"loss", 3}})) << "there is none";
        ASSERT_TRUE(me.save(1, with(3)).ok());
        EXPECT_FALSE(me.engine->is_best({{"loss", 3}})) << "that one is on its way";
        EXPECT_TRUE(me.engine->is_best({{"loss", 2}}));
        EXPECT_FALSE(me.engine->is_best({{"loss", std::nan("")}}));
        EXPECT_FALSE(me.engine->is_best({{"loss", -HUGE_VAL}}));
        ASSERT_TRUE(me.engine->drain(me.by()).ok());
        run.world.faults().plan({.kind = FaultKind::no_space, .op = SimOp::write, .path = "data/*"});
        ASSERT_TRUE(me.save_fully(2, with(1)).is(Code::no_space));
        EXPECT_TRUE(me.engine->is_best({{"loss", 2}})) << "what failed is no best";
        me.model.be_finite(false);
        ASSERT_TRUE(me.save_fully(3, with(0)).ok());
        me.model.be_finite(true);
        EXPECT_TRUE(me.engine->is_best({{"loss", 0.5}}));
        ASSERT_TRUE(me.save_fully(4, with(0.5)).ok());
        ASSERT_TRUE(me.close().ok());
      },
      options);
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        EXPECT_FALSE(me.engine->is_best({{"loss", 0.5}})) << "a later life knows it";
        EXPECT_TRUE(me.engine->is_best({{"loss", 0.25}}));
      },
      options);
}

TEST(Save, UnderATagIsKept) {
  EngineOptions options = test_options();
  options.open.policy = {.keep_last = 1, .verified_min = 1};
  TestRun run;
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        ASSERT_TRUE(me.save_fully(1, {.tags = {"first", "good"}}).ok());
        ASSERT_TRUE(me.save_fully(2).ok());
        const auto added = me.save(2, {.tags = {"later"}}).value();
        ASSERT_TRUE(added->wait(Stage::verified, me.by()).ok());
        EXPECT_FALSE(added->error());
        EXPECT_EQ(added->name(), "2.a1");
        for (std::uint64_t step = 3; step <= 5; ++step) ASSERT_TRUE(me.save_fully(step).ok());
        ASSERT_TRUE(me.close().ok());
      },
      options);
  const History history = run.journal();
  EXPECT_THAT(history.find(SaveId{1, 1, 0})->tags, ElementsAre("first", "good"));
  EXPECT_THAT(history.find(SaveId{2, 1, 0})->tags, ElementsAre("later"));
  EXPECT_THAT(run.names("data"),
              UnorderedElementsAre("step-000000000001.a0001.t0", "step-000000000002.a0001.t0",
                                   "step-000000000005.a0001.t0"));
}

TEST(Save, OfTheGridIsNeverSkipped) {
  EngineOptions options = test_options();
  options.open.policy.keep_every = 3;
  TestRun run;
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        ASSERT_TRUE(me.save(1).ok());
        EXPECT_FALSE(me.engine->is_due(2)) << "one is in flight";
        EXPECT_TRUE(me.engine->is_due(3));
        ASSERT_TRUE(me.close().ok());
      },
      options);
}

// failure: kyutai-labs/pocket-tts#262
TEST(Retention, DoesNotCountWhatIsNotFinite) {
  EngineOptions options = test_options();
  options.open.policy = {.keep_last = 2, .verified_min = 2};
  TestRun run;
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        for (std::uint64_t step = 1; step <= 6; ++step) {
          me.model.be_finite(step < 4);
          ASSERT_TRUE(me.save_fully(step).ok());
        }
        ASSERT_TRUE(me.close().ok());
      },
      options);
  const History history = run.journal();
  EXPECT_EQ(history.find(SaveId{3, 1, 0})->commit.health, "ok");
  EXPECT_EQ(history.find(SaveId{6, 1, 0})->commit.health, "non-finite");
  EXPECT_EQ(history.find(SaveId{1, 1, 0}), nullptr) << "that one has gone";
  EXPECT_FALSE(history.find(SaveId{2, 1, 0})->is_intended) << "the later ones are worth nothing";
}

}  // namespace
}  // namespace unbroken
