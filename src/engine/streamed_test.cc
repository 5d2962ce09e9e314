// Saves for which there is too little memory: each goes through a window while the training waits.
#include <algorithm>

#include "base/mutant.h"
#include "engine/test_run.h"
#include "engine/write/write_object.h"

namespace unbroken {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using Stage = Saving::Stage;

constexpr std::uint64_t kWindow = 2 * kBlockBytes, kStateBytes = 3 * kBlockBytes + (std::uint64_t{1} << 20);

EngineOptions tight() {
  EngineOptions options = test_options();
  options.arena = {.bytes_max = kWindow, .window_bytes_min = kWindow, .window_bytes_max = kWindow};
  return options;
}

TestModel large_model() {
  return TestModel(kStateBytes / sizeof(std::uint64_t));
}

/// A life with a model for which a window is needed.
void live(TestRun& run, const std::function<void(TestLife&)>& body) {
  run.live(
      [&](TestLife& me) {
        me.model = large_model();
        ASSERT_TRUE(me.restore().ok());
        EXPECT_TRUE(me.model.is_of(me.start()));
        body(me);
      },
      tight());
}

std::uint64_t start_of(TestRun& run) {
  std::uint64_t start = 0;
  live(run, [&](TestLife& me) { start = me.start(); });
  return start;
}

TEST(SaveStreamed, IsTheStateOfItsStep) {
  TestRun run;
  live(run, [](TestLife& me) {
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const auto saving = me.save(step).value();
      EXPECT_TRUE(saving->has_reached(Stage::staged));
      me.model.put(77);  // training goes on
      ASSERT_TRUE(saving->wait(Stage::verified, me.by()).ok());
      EXPECT_FALSE(saving->error());
    }
    const std::vector<std::string> said = me.engine->status().take_messages(true);
    EXPECT_EQ(std::count_if(said.begin(), said.end(),
                            [](const std::string& line) { return line.find("window") != std::string::npos; }),
              1)
        << "once";
    EXPECT_THAT(said,
                Contains(HasSubstr("warning: a snapshot takes 25.0 MiB, more than arena=16.0 MiB: 9.0 MiB "
                                   "are missing")));
    ASSERT_TRUE(me.close().ok());
  });
  EXPECT_EQ(start_of(run), 3u);
}

TEST(SaveStreamed, CopiesAtOnceWhatWasToBeLater) {
  TestRun run;
  live(run, [](TestLife& me) {
    me.model.is_copied_later = true;
    const auto saving = me.save(1).value();
    me.model.put(77);
    ASSERT_TRUE(saving->wait(Stage::verified, me.by()).ok());
    EXPECT_FALSE(saving->error());
    EXPECT_EQ(me.engine->stats().saves.last_cost.later_bytes, 0u);
    EXPECT_THAT(me.engine->stats().distrusted, IsEmpty());
  });
  EXPECT_EQ(start_of(run), 1u);
}

TEST(SaveStreamed, OneAfterAnotherWaitsForTheMemory) {
  TestRun run;
  live(run, [](TestLife& me) {
    const auto first = me.save(1).value(), second = me.save(2).value();
    for (const auto& saving : {first, second}) {
      ASSERT_TRUE(saving->wait(Stage::verified, me.by()).ok());
      EXPECT_FALSE(saving->error());
    }
  });
  EXPECT_EQ(start_of(run), 2u);
}

// failure: pytorch/pytorch#144657
TEST(SaveStreamed, ThatCannotBeWrittenIsNoneAndTheRunGoesOn) {
  const std::vector<PlannedFault> faults{
      {.kind = FaultKind::no_space, .op = SimOp::write, .path = "data/*.safetensors", .nth = 1},
      {.kind = FaultKind::no_space, .op = SimOp::write, .path = "data/*.safetensors", .nth = 3},
      {.kind = FaultKind::eio, .op = SimOp::write, .path = "data/*.safetensors", .nth = 4},
      {.kind = FaultKind::eio, .op = SimOp::create_excl, .path = "data/*.safetensors"},
      {.kind = FaultKind::sync_loses, .op = SimOp::sync, .path = "data/*.safetensors"},
  };
  for (const PlannedFault& fault : faults)
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      TestRun run(seed);
      live(run, [&](TestLife& me) {
        ASSERT_TRUE(me.save_fully(1).ok());
        run.world.faults().plan(fault);
        const auto failed = me.save(2).value();
        ASSERT_TRUE(failed->wait(Stage::durable, me.by()).ok());
        ASSERT_TRUE(failed->error());
        EXPECT_TRUE(failed->error()->code() == Code::no_space || failed->error()->code() == Code::unavailable)
            << failed->error()->what();
        EXPECT_THAT(failed->error()->what(), HasSubstr(".safetensors"));
        EXPECT_EQ(me.engine->status().health().saves_failed, 1u);
        ASSERT_TRUE(me.save_fully(3).ok());
        ASSERT_TRUE(me.close().ok());
      });
      EXPECT_EQ(run.journal().find(SaveId::from_name("2.a1").value()), nullptr);
      EXPECT_EQ(start_of(run), 3u);
    }
}

TEST(SaveStreamed, OfWhichNobodyTakesTheWorkFailsAndNobodyWaits) {
  TestRun run;
  live(run, [](TestLife& me) {
    me.executor.is_refusing = true;
    const auto saving = me.save(1).value();
    ASSERT_TRUE(saving->error());
    me.executor.is_refusing = false;
    me.executor.refused = Lane::io;  // the strand does it then
    ASSERT_TRUE(me.save(2).value()->wait(Stage::durable, me.by()).ok());
    EXPECT_EQ(me.newest(), "2.a1");
  });
  EXPECT_EQ(start_of(run), 2u);
}

TEST(SaveStreamed, OfASupersededLifeEnds) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    TestRun run(seed);
    EngineOptions taking = tight();
    taking.open.is_takeover = true;
    run.begin(
        [](TestLife& me) {
          me.model = large_model();
          if (!me.restore().ok()) return;
          for (std::uint64_t step = 1; step <= 3; ++step)
            if (!me.save(step).ok()) return;
        },
        taking);
    run.begin(
        [](TestLife& me) {
          pass(me.seams, std::chrono::milliseconds(3));
          me.model = large_model();
          if (me.restore().ok()) (void)me.save_fully(me.start() + 1);
        },
        taking);
    const SimEnd end = run.world.run();
    EXPECT_EQ(end.failure, "");
    EXPECT_EQ(end.why, SimEnd::Why::all_over) << "it waits for what never comes";
  }
}

TEST(SaveStreamed, IsNoCheckpointWhereThePowerGoes) {
  for (std::uint64_t op = 50; op <= 150; op += 20) {  // from opening the run to reading the save back
    TestRun run(op);
    live(run, [](TestLife& me) { ASSERT_TRUE(me.save_fully(1).ok()); });
    run.begin(
           [](TestLife& me) {
             me.model = large_model();
             if (me.restore().ok()) (void)me.save_fully(2);
           },
           tight())
        .kill_at_op(op);
    ASSERT_TRUE(run.world.run().ok());
    run.world.power_loss();
    EXPECT_GE(start_of(run), 1u);
  }
}

#ifdef UNBROKEN_WITH_MUTANTS
TEST(SaveStreamed, WhatIsGivenBackBeforeItIsWrittenIsFound) {
  TestRun run;
  live(run, [](TestLife& me) {
    active_mutant = "gives_back_unwritten";
    const auto saving = me.save(1).value();
    ASSERT_TRUE(saving->wait(Stage::verified, me.by()).ok());
    active_mutant = {};
    ASSERT_TRUE(saving->error());
    EXPECT_EQ(saving->error()->code(), Code::corrupt) << "the hashes are those of what was copied";
  });
}
#endif

}  // namespace
}  // namespace unbroken
