// Saves of one life: made durable, read back, failing, skipped, fenced.
#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "engine/read/reader.h"
#include "engine/test_run.h"

namespace unbroken {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using Stage = Saving::Stage;

// failure: pytorch/torchtitan#930
TEST(Save, IsCommittedThenReadBack) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    EXPECT_EQ(me.newest(), std::nullopt);
    const auto saving = me.save(1).value();
    EXPECT_EQ(saving->name(), "1.a1");
    EXPECT_TRUE(saving->has_reached(Stage::staged));
    me.model.put(77);  // training goes on
    ASSERT_TRUE(saving->wait(Stage::durable, me.by()).ok());
    EXPECT_EQ(me.newest(), "1.a1");
    ASSERT_TRUE(saving->wait(Stage::verified, me.by()).ok());
    EXPECT_FALSE(saving->error());
    EXPECT_EQ(me.engine->status().health().state, Health::State::green);
  });
  const std::vector<std::string> facts = run.facts();
  EXPECT_THAT(facts, ElementsAre("GENESIS", "OPEN", "POLICY", "COMMIT", "VERIFIED"));
  EXPECT_EQ(run.start().value(), 1u);
}

TEST(Save, OfAStepThatIsSavedGivesThatSaveAgain) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    const auto first = me.save(1).value();
    EXPECT_EQ(me.save(1).value(), first) << "while it is on its way";
    ASSERT_TRUE(first->wait(Stage::verified, me.by()).ok());
    EXPECT_EQ(me.save(1).value(), first) << "and after";
  });
}

TEST(Save, ThatFallsDueWhileOneIsInFlightWaitsForItWhereThatIsWanted) {
  EngineOptions options = test_options();
  options.busy_wait = std::chrono::hours(1);
  TestRun run;
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        EXPECT_TRUE(me.engine->is_due(1));
        const auto first = me.save(1).value();
        EXPECT_TRUE(me.engine->is_due(2));
        EXPECT_TRUE(first->has_reached(Stage::durable));
        EXPECT_EQ(me.engine->stats().saves.skipped, 0u);
      },
      options);
}

TEST(Save, ThatWaitedLongEnoughIsSkipped) {
  EngineOptions options = test_options();
  options.busy_wait = std::chrono::nanoseconds(1);
  TestRun run;
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        ASSERT_TRUE(me.save(1).ok());
        EXPECT_FALSE(me.engine->is_due(2));
        EXPECT_EQ(me.engine->stats().saves.skipped, 1u);
      },
      options);
}

// failure: NVIDIA/nvidia-resiliency-ext#373
TEST(Save, ThatFallsDueWhileOneIsInFlightIsSkippedAndCounted) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    EXPECT_TRUE(me.engine->is_due(1));
    const auto first = me.save(1).value();
    EXPECT_FALSE(me.engine->is_due(2));
    EXPECT_FALSE(me.engine->is_due(3));
    EXPECT_EQ(me.engine->status().health().saves_skipped, 2u);
    ASSERT_TRUE(me.engine->drain(me.by()).ok());
    EXPECT_TRUE(me.engine->is_due(4));
    EXPECT_EQ(me.engine->status().health().saves_skipped, 2u);
  });
}

// failure: NVIDIA-NeMo/Automodel#3824, intelligent-machine-learning/dlrover#1069, NVIDIA-NeMo/Automodel#3125
TEST(Save, ThatIsAskedForWaitsForASlotAndIsNeverSkipped) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    std::vector<std::shared_ptr<Saving>> all;
    for (std::uint64_t step = 1; step <= 6; ++step) {
      auto saving = me.save(step);
      ASSERT_TRUE(saving.ok()) << saving.error().what();
      all.push_back(saving.value());
    }
    ASSERT_TRUE(me.engine->drain(me.by()).ok());
    for (const auto& saving : all) EXPECT_TRUE(saving->has_reached(Stage::durable)) << saving->name();
    EXPECT_EQ(me.engine->status().health().saves_skipped, 0u);
  });
  EXPECT_EQ(run.journal().newest_attempt()->commits, 6u);
}

// failure: NVIDIA/nvidia-resiliency-ext#373, NVIDIA/Megatron-LM#2422
TEST(Save, WaitsForASlotOnlyUntilItsDeadline) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    run.world.faults().plan({.kind = FaultKind::hang,
                             .op = SimOp::sync,
                             .path = "data/*",
                             .count = 3,
                             .hang = std::chrono::minutes(5)});
    ASSERT_TRUE(me.save(1).ok());
    ASSERT_TRUE(me.save(2).ok());
    const auto third = me.engine->save(3, me.model.view(), {}, me.seams.within(std::chrono::minutes(1)));
    EXPECT_TRUE(third.is(Code::late));
    EXPECT_EQ(me.engine->status().health().state, Health::State::red);
    EXPECT_EQ(me.engine->status().health().saves_failed, 1u) << "one that fails at once is a failed save too";
    EXPECT_THAT(me.engine->status().take_messages(true), ElementsAre(HasSubstr("save 3.a1 failed")));
    EXPECT_TRUE(me.engine->drain(me.seams.within(std::chrono::minutes(1))).is(Code::late));
    EXPECT_TRUE(me.engine->close(me.seams.within(std::chrono::minutes(1))).is(Code::late));
    EXPECT_TRUE(me.close().ok()) << "it may be closed later";
  });
  EXPECT_EQ(run.journal().checkpoints().size(), 2u);
}

/// Fails a save by `fault` and expects: named, counted, aborted, space given back, and the next try works.
void expect_survives(PlannedFault fault, Code code) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    const std::uint64_t used = run.world.disk().used_bytes();
    run.world.faults().plan(fault);
    const auto failed = me.save_fully(2);
    ASSERT_TRUE(failed.is(code)) << (failed.ok() ? "it did not fail" : failed.error().what());
    ASSERT_TRUE(me.engine->drain(me.by()).ok());
    const Health health = me.engine->status().health();
    EXPECT_EQ(health.state, Health::State::red);
    EXPECT_EQ(health.saves_failed, 1u);
    EXPECT_THAT(health.why, ElementsAre(HasSubstr("2.a1")));
    EXPECT_THAT(me.engine->status().take_messages(true),
                ElementsAre(testing::AllOf(HasSubstr("2.a1 failed"), HasSubstr("1.a1 stands"))));
    EXPECT_EQ(me.newest(), "1.a1");
    EXPECT_TRUE(me.train(2).ok()) << "training goes on";
    EXPECT_TRUE(run.journal().is_aborted(SaveId{2, 1, 0}));
    EXPECT_THAT(run.names("data"), ElementsAre("step-000000000001.a0001.t0")) << "debris is left";
    // An ABORT record and a line of metrics are all that it cost.
    EXPECT_LE(run.world.disk().used_bytes(), used + 3 * 4096);

    const auto again = me.save(2);
    ASSERT_TRUE(again.ok()) << again.error().what();
    EXPECT_EQ(again.value()->name(), "2.a1.t1");
    ASSERT_TRUE(again.value()->wait(Stage::verified, me.by()).ok());
    EXPECT_FALSE(again.value()->error());
    EXPECT_EQ(me.engine->status().health().state, Health::State::green);
    EXPECT_EQ(me.engine->status().health().saves_failed, 1u);
    EXPECT_EQ(me.newest(), "2.a1.t1");
  });
  EXPECT_EQ(run.start().value(), 2u);
}

// failure: facebookresearch/metaseq#53
TEST(FailedSave, OfAFullDiskGivesTheSpaceBack) {
  expect_survives({.kind = FaultKind::no_space, .op = SimOp::write, .path = "data/*.safetensors"},
                  Code::no_space);
  expect_survives({.kind = FaultKind::no_space, .op = SimOp::write, .path = "data/*.sums"}, Code::no_space);
  expect_survives({.kind = FaultKind::no_space, .op = SimOp::create_excl, .path = "data/*receipt*"},
                  Code::no_space);
}

// failure: NVIDIA-NeMo/Automodel#3254
TEST(FailedSave, LeavesNothingHoweverLongTheDiskIsFull) {
  // The longest phases: nothing can be written at all, only the journal cannot, only late objects cannot.
  for (const char* const path : {"*", "journal/*", "data/*receipt*", "data/*manifest*", "data/*.sums*"}) {
    TestRun run;
    run.live([&](TestLife& me) {
      ASSERT_TRUE(me.restore().ok());
      ASSERT_TRUE(me.save_fully(1).ok());
      const auto before = run.names("data");
      for (const SimOp op : {SimOp::create_excl, SimOp::write})
        run.world.faults().plan({.kind = FaultKind::no_space, .op = op, .path = path, .count = 1'000'000});
      for (std::uint64_t step = 2; step <= 5; ++step) {
        const auto saved = me.save_fully(step);
        ASSERT_TRUE(saved.is(Code::no_space))
            << path << ": " << (saved.ok() ? "saved" : saved.error().what());
        EXPECT_EQ(saved.error().next_command(), "df -h /runs/mlp; df -i /runs/mlp");
        ASSERT_TRUE(me.engine->drain(me.by()).ok());
        EXPECT_EQ(run.names("data"), before) << path << " step " << step;
      }
      run.world.faults().stop();
      ASSERT_TRUE(me.save_fully(6).ok()) << path;
      ASSERT_TRUE(me.close().ok());
    });
    EXPECT_EQ(run.start().value(), 6u);
  }
}

// failure: rwth-i6/returnn#1829
TEST(FailedSave, OfASyncThatFailedIsGivenUpAndMadeAnew) {
  expect_survives({.kind = FaultKind::sync_loses, .op = SimOp::sync, .path = "data/*.safetensors"},
                  Code::unavailable);
  expect_survives({.kind = FaultKind::sync_loses, .op = SimOp::sync, .path = "data/*receipt*"},
                  Code::unavailable);
  expect_survives({.kind = FaultKind::eio, .op = SimOp::sync_dir, .path = "data/*"}, Code::unavailable);
}

TEST(FailedSave, AtOnceIsRaisedByItsOwnCallAlone) {
  EngineOptions options = test_options();
  options.raises_on_save_error = true;
  TestRun run;
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        me.engine->save_failed(1, Error(Code::unavailable, "no memory"));
        EXPECT_TRUE(me.train(1).ok()) << "who called has the error already";
        EXPECT_EQ(me.engine->status().health().state, Health::State::red);
        EXPECT_TRUE(me.save_fully(2).ok());
        EXPECT_EQ(me.engine->status().health().state, Health::State::green);
        EXPECT_EQ(me.engine->status().health().saves_failed, 1u);
      },
      options);
}

TEST(FailedSave, OfATagIsCounted) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    run.world.faults().plan({.kind = FaultKind::no_space, .op = SimOp::create_excl, .path = "journal/*"});
    const auto tagged = me.save(1, {.tags = {"good"}});
    ASSERT_TRUE(tagged.ok());
    ASSERT_TRUE(tagged.value()->wait(Stage::durable, me.by()).ok());
    EXPECT_TRUE(tagged.value()->error());
    EXPECT_EQ(me.engine->status().health().saves_failed, 1u);
    EXPECT_THAT(me.engine->status().take_messages(true), ElementsAre(HasSubstr("tag good")));
  });
}

// failure: google/orbax#605
TEST(FailedSave, IsToldOnceWhereItIsToBeRaised) {
  EngineOptions options = test_options();
  options.raises_on_save_error = true;
  TestRun run;
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        run.world.faults().plan({.kind = FaultKind::no_space, .op = SimOp::write, .path = "data/*"});
        EXPECT_TRUE(me.save_fully(1).is(Code::no_space));
        EXPECT_TRUE(me.train(1).is(Code::no_space));
        EXPECT_TRUE(me.train(2).ok());
      },
      options);
}

/// Whatever call on storage fails once: the save is either there or told as failed, never both, and the next
/// one works.
// failure: NVIDIA-NeMo/Automodel#3254, rwth-i6/returnn#1829, google/orbax#605
TEST(FailedSave, AtAnyCallIsToldAsItIs) {
  std::uint64_t failed_count = 0, hit_count = 0;
  for (const SimOp op :
       {SimOp::create_excl, SimOp::open_read, SimOp::write, SimOp::read, SimOp::size, SimOp::sync,
        SimOp::link, SimOp::unlink, SimOp::make_dir, SimOp::sync_dir, SimOp::list}) {
    for (const FaultKind kind :
         {FaultKind::eio, FaultKind::answer_lost_done, FaultKind::answer_lost_undone}) {
      const bool may_lose_answers = op == SimOp::link || op == SimOp::make_dir;
      if (kind != FaultKind::eio && !may_lose_answers) continue;
      for (std::uint64_t nth = 1; nth <= 14; ++nth) {
        const std::string what = fmt::format("{} {} {}", name_of(op), static_cast<int>(kind), nth);
        TestRun run(nth);
        run.live([&](TestLife& me) {
          ASSERT_TRUE(me.restore().ok());
          ASSERT_TRUE(me.engine->drain(me.by()).ok());
          run.world.faults().plan({.kind = kind, .op = op, .nth = nth});
          const auto saving = me.save(1).value();
          ASSERT_TRUE(saving->wait(Stage::verified, me.by()).ok());
          ASSERT_TRUE(me.engine->drain(me.by()).ok());
          hit_count += run.world.faults().hit_count();
          run.world.faults().stop();
          const bool is_told = saving->has_reached(Stage::durable);
          const bool is_there = run.journal().find(saving->id()) != nullptr;
          EXPECT_EQ(is_told, is_there) << what;
          EXPECT_EQ(me.newest() == "1.a1", is_told) << what;
          failed_count += is_told ? 0 : 1;
          const auto again = me.save(1);
          ASSERT_TRUE(again.ok()) << what;
          ASSERT_TRUE(again.value()->wait(Stage::durable, me.by()).ok());
          EXPECT_TRUE(again.value()->has_reached(Stage::durable))
              << what << ": the same step cannot be saved";
          const auto next = me.save_fully(2);
          EXPECT_TRUE(next.ok()) << what << ": " << next.error().what();
          EXPECT_TRUE(me.close().ok());
        });
        EXPECT_EQ(run.start().value(), 2u) << what;
        EXPECT_THAT(run.names("data"), SizeIs(run.journal().checkpoints().size())) << what << ": debris";
      }
    }
  }
  EXPECT_GT(hit_count, 80u);
  EXPECT_GT(failed_count, 10u);
}

// failure: llnl/scr#174
TEST(ReadBack, QuarantinesDamageAndTheNewestFallsBack) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    run.world.faults().plan({.kind = FaultKind::flips_bit,
                             .op = SimOp::read,
                             .path = "data/step-000000000002*.safetensors",
                             .count = 100});
    const auto saving = me.save(2).value();
    ASSERT_TRUE(saving->wait(Stage::verified, me.by()).ok());
    EXPECT_TRUE(saving->has_reached(Stage::durable));
    ASSERT_TRUE(saving->error());
    EXPECT_EQ(saving->error()->code(), Code::corrupt);
    EXPECT_TRUE(run.journal().find(SaveId{2, 1, 0})->is_quarantined());
    EXPECT_EQ(me.newest(), "1.a1");
    const Health health = me.engine->status().health();
    EXPECT_EQ(health.state, Health::State::yellow);
    EXPECT_THAT(health.why, ElementsAre(HasSubstr("2.a1 is damaged on storage")));
    EXPECT_TRUE(me.save_fully(3).ok());
    EXPECT_EQ(me.engine->status().health().state, Health::State::green);
    EXPECT_EQ(me.newest(), "3.a1");
  });
}

TEST(ReadBack, ThatFindsTheOnlyCheckpointDamagedLeavesNone) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    run.world.faults().plan(
        {.kind = FaultKind::flips_bit, .op = SimOp::read, .path = "data/*.safetensors", .count = 100});
    EXPECT_TRUE(me.save_fully(1).is(Code::corrupt));
    EXPECT_EQ(me.newest(), std::nullopt);
  });
}

TEST(ReadBack, BelievesDamageOnlyTwice) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    run.world.faults().plan({.kind = FaultKind::flips_bit, .op = SimOp::read, .path = "data/*.safetensors"});
    EXPECT_TRUE(me.save_fully(1).ok());
  });
  EXPECT_THAT(run.facts(), Not(Contains("QUARANTINE")));
}

TEST(ReadBack, ThatCannotReadIsAWorryAndNoDamage) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    run.world.faults().plan(
        {.kind = FaultKind::eio, .op = SimOp::read, .path = "data/*.safetensors", .count = 100});
    const auto saving = me.save(1).value();
    ASSERT_TRUE(saving->wait(Stage::verified, me.by()).ok());
    ASSERT_TRUE(saving->error());
    EXPECT_EQ(saving->error()->code(), Code::unavailable);
    EXPECT_EQ(me.newest(), "1.a1") << "it is committed";
    EXPECT_EQ(me.engine->status().health().state, Health::State::yellow);
    EXPECT_EQ(me.engine->status().health().saves_failed, 0u);
    EXPECT_EQ(me.save(1).value(), saving) << "the step is saved: it cannot be saved again";
  });
  EXPECT_FALSE(run.journal().find(SaveId{1, 1, 0})->is_quarantined());
}

TEST(ReadBack, OfWhatRetentionTookMeanwhileIsNoDamage) {
  EngineOptions options = test_options();
  options.open.policy = {.keep_last = 1, .verified_min = 1};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TestRun run(seed);
    run.live(
        [&](TestLife& me) {
          ASSERT_TRUE(me.restore().ok());
          run.world.faults().plan({.kind = FaultKind::hang,
                                   .op = SimOp::open_read,
                                   .path = "data/step-000000000001*.sums",
                                   .nth = 2,
                                   .hang = std::chrono::minutes(10)});
          const auto first = me.save(1).value();
          ASSERT_TRUE(first->wait(Stage::durable, me.by()).ok());
          ASSERT_TRUE(me.save_fully(2).ok());
          ASSERT_TRUE(me.save_fully(3).ok());
          ASSERT_TRUE(me.engine->drain(me.by()).ok());
          ASSERT_EQ(run.journal().find(SaveId{1, 1, 0}), nullptr) << "it is DELETED";
          ASSERT_TRUE(first->error());
          EXPECT_EQ(first->error()->code(), Code::vanished);
          EXPECT_EQ(me.engine->status().health().state, Health::State::green);
          EXPECT_EQ(me.newest(), "3.a1");
        },
        options);
  }
}

TEST(Retention, KeepsTheLastAndGivesTheRestBack) {
  EngineOptions options = test_options();
  options.open.policy = {.keep_last = 2, .verified_min = 2};
  TestRun run;
  run.train(1, 6, options);
  EXPECT_THAT(run.names("data"),
              testing::UnorderedElementsAre("step-000000000005.a0001.t0", "step-000000000006.a0001.t0"));
  EXPECT_EQ(run.journal().find(SaveId{1, 1, 0}), nullptr) << "it is DELETED";
}

// failure: facebookresearch/metaseq#53
TEST(Retention, RemovesTheDebrisOfALifeThatWasKilled) {
  TestRun run;
  run.train(1, 1);
  run.begin([](TestLife& me) {
       ASSERT_TRUE(me.restore().ok());
       (void)me.save_fully(2);
     })
      .kill_at_point("commit.before_manifest");
  EXPECT_TRUE(run.world.run().ok());
  EXPECT_THAT(run.names("data"), SizeIs(2));
  EXPECT_EQ(run.start().value(), 1u);
  EXPECT_THAT(run.names("data"), ElementsAre("step-000000000001.a0001.t0"));
}

// failure: NVIDIA-NeMo/Megatron-Bridge#4839
TEST(Fence, SurfacesAtBoundarySaveAndClose) {
  TestRun run;
  bool is_over = false;
  SimProcess& old = run.begin([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    UNBROKEN_POINT("test.asleep");
    const auto saving = me.save(2);
    ASSERT_TRUE(saving.ok()) << "nobody knows yet";
    ASSERT_TRUE(saving.value()->wait(Stage::durable, me.by()).ok());
    EXPECT_EQ(saving.value()->error()->code(), Code::fenced);
    EXPECT_TRUE(me.train(2).is(Code::fenced));
    EXPECT_TRUE(me.save(3).is(Code::fenced));
    EXPECT_TRUE(me.close().is(Code::fenced));
    EXPECT_EQ(me.engine->status().health().state, Health::State::red);
    EXPECT_EQ(me.newest(), "1.a1");
    is_over = true;
  });
  old.pause_at_point("test.asleep");
  EXPECT_TRUE(run.world.run().ok());
  EngineOptions options = test_options();
  options.open.is_takeover = true;
  run.begin(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        ASSERT_TRUE(me.save_fully(2).ok());
        ASSERT_TRUE(me.close().ok());
      },
      options);
  EXPECT_TRUE(run.world.run().ok());
  old.resume();
  EXPECT_EQ(run.world.run().failure, "");
  EXPECT_TRUE(is_over);
  EXPECT_EQ(run.journal().newest()->commit.save.name(), "2.a2");
  EXPECT_EQ(run.journal().find(SaveId{2, 1, 0}), nullptr);
  EXPECT_EQ(run.start().value(), 2u) << "the fenced life did not say that the run is closed";
}

TEST(Close, EndsOwnershipAndLeavesNothingToDo) {
  TestRun run;
  run.live([&](TestLife& me) {
    EXPECT_TRUE(me.close().ok()) << "before restore() there is nothing to close";
    ASSERT_TRUE(me.restore().ok());
    const auto saving = me.save(1).value();
    ASSERT_TRUE(me.close().ok());
    EXPECT_TRUE(saving->has_reached(Stage::verified));
    EXPECT_TRUE(me.close().ok());
    EXPECT_TRUE(me.train(2).is(Code::bad_argument)) << "a closed run goes on";
    EXPECT_TRUE(me.save(2).is(Code::bad_argument));
  });
  const auto hint = decode_hint(*run.world.disk().peek(kHintKey));
  ASSERT_TRUE(hint.ok());
  EXPECT_EQ(hint.value().closed, run.journal().newest_attempt()->slot);
  EXPECT_EQ(hint.value().slot, run.journal().next_slot() - 1);
}

TEST(Close, IsNeverSaidByALifeThatIsDropped) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save(1).ok());
    me.engine.reset();  // saves in flight are given up
  });
  EXPECT_FALSE(decode_hint(*run.world.disk().peek(kHintKey)).value().closed);
  EXPECT_TRUE(run.start().ok());
}

TEST(Save, TakesAnyNumberOfMetrics) {
  Metrics many;
  for (int i = 0; i < 500; ++i) many.emplace_back("metric_with_a_long_name_" + std::to_string(i), 0.1 * i);
  many.emplace_back("not_finite", std::nan(""));
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    const auto saved = me.save_fully(1, {.metrics = many});
    EXPECT_TRUE(saved.ok()) << saved.error().what();
    auto reader = Reader::open(me.seams, "newest", me.by());
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(reader.value().saved().manifest.metrics.size(), 256u);
  });
  ASSERT_THAT(run.journal().checkpoints(), SizeIs(1));
  EXPECT_THAT(run.journal().checkpoints()[0].commit.metrics, Not(IsEmpty()));
}

TEST(Save, ThatCannotBePostedFailsAndIsNotWaitedFor) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    me.executor.is_refusing = true;
    const auto saving = me.save(2);
    ASSERT_TRUE(saving.ok());
    EXPECT_TRUE(saving.value()->is_settled(Stage::durable)) << "whoever waits for it waits for ever";
    EXPECT_EQ(me.engine->status().health().state, Health::State::red);
    EXPECT_EQ(me.engine->status().health().saves_failed, 1u);
    EXPECT_THAT(me.engine->status().take_messages(true), ElementsAre(HasSubstr("save 2.a1 failed")))
        << "said once";
    ASSERT_TRUE(me.train(2, {{"loss", 1.0}}).ok());
    me.executor.is_refusing = false;
    ASSERT_TRUE(me.engine->drain(me.by()).ok());
    EXPECT_TRUE(me.engine->is_due(3)) << "it still counts as in flight";
    EXPECT_TRUE(me.save_fully(3).ok());
    ASSERT_TRUE(me.train(3, {{"loss", 1.0}}).ok());
    ASSERT_TRUE(me.close().ok());
  });
  EXPECT_THAT(*run.world.disk().peek("metrics/a0001.jsonl"), HasSubstr("\"step\":3"))
      << "the lines of metrics stopped for good";
}

TEST(Save, RefusesWhatCannotBeRead) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    StateView bad;
    bad.tensors = {{"t", DType::u8, {4}, {1}, nullptr}};
    bad.tree = Node{Dict{}};
    EXPECT_TRUE(me.engine->save(1, bad, {}, me.by()).is(Code::bad_argument));
    EXPECT_TRUE(me.save_fully(1).ok()) << "the slot was lost";
  });
}

TEST(Tap, TellsTheWholeStateByBits) {
  std::vector<std::string> lines;
  EngineOptions options = test_options();
  options.tap = [&](const std::string& line) -> Result<> {
    lines.push_back(line);
    return Done{};
  };
  TestRun run;
  run.live(
      [&](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        const StateView view = me.model.view();
        ASSERT_TRUE(
            me.engine->tap(1, {{"loss", 0.5}}, view.tensors, {{"epoch", "3"}}, {{"scheduler", "ab"}}).ok());
      },
      options);
  ASSERT_THAT(lines, SizeIs(1));
  const Json line = parse_json(lines[0]).value();
  EXPECT_EQ(line["step"], 1);
  EXPECT_EQ(line["attempt"], 1);
  EXPECT_EQ(line["metrics"]["loss"], "3fe0000000000000");
  EXPECT_EQ(line["values"]["epoch"], "3");
  EXPECT_EQ(line["not_attached"], Json({{"scheduler", "ab"}}));
  EXPECT_EQ(line["tensors"]["step"], xxh128(as_bytes(std::string(8, '\0'))).hex());
}

}  // namespace
}  // namespace unbroken
