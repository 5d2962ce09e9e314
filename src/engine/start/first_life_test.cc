#include "engine/start/first_life.h"

#include "engine/test_run.h"

namespace unbroken {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

EngineOptions fresh() {
  EngineOptions options = test_options();
  options.open.is_fresh_allowed = true;
  return options;
}

TEST(FirstLife, StartsAtStepZeroInAnEmptyDirectory) {
  TestRun run;
  EXPECT_EQ(run.start().value(), 0u);
  EXPECT_THAT(run.facts(), ElementsAre("GENESIS", "OPEN", "POLICY"));
  EXPECT_TRUE(run.world.disk().exists("RUN"));
}

// failure: NVIDIA-NeMo/Speech#14259
TEST(FirstLife, IsRefusedWhereTheEnvironmentTellsOfAnEarlierLife) {
  for (const auto& [name, value] :
       {std::pair("SLURM_RESTART_COUNT", "1"), std::pair("TORCHELASTIC_RESTART_COUNT", "2"),
        std::pair("UNBROKEN_RESUMED", "1")}) {
    TestRun run;
    const auto started = run.start(test_options(), {.env = {{name, value}}});
    ASSERT_TRUE(started.is(Code::not_found)) << name;
    EXPECT_THAT(started.error().what(), HasSubstr(name));
    EXPECT_THAT(started.error().what(), HasSubstr("/runs/mlp"));
    EXPECT_THAT(started.error().what(), HasSubstr("start once with fresh=True"));
    EXPECT_NE(started.error().next_command(), "");
    EXPECT_THAT(run.names(""), IsEmpty()) << "a refusal writes nothing";
  }
}

TEST(FirstLife, TakesNoSignFromCountersThatAreZero) {
  TestRun run;
  const auto started = run.start(
      test_options(),
      {.env = {{"SLURM_RESTART_COUNT", "0"}, {"TORCHELASTIC_RESTART_COUNT", ""}, {"UNBROKEN_RESUMED", "0"}}});
  EXPECT_TRUE(started.ok()) << started.error().what();
}

TEST(FirstLife, IsRefusedWhereTheCallerKnowsOfAnEarlierLife) {
  TestRun run;
  EXPECT_TRUE(run.start(resuming("1200")).is(Code::not_found));
  EXPECT_THAT(run.names(""), IsEmpty());
}

TEST(FirstLife, IsPermittedDespiteASignByFresh) {
  TestRun run;
  EXPECT_EQ(run.start(fresh(), {.env = {{"SLURM_RESTART_COUNT", "1"}}}).value(), 0u);
  TestRun named;
  EngineOptions options = resuming("1200");
  options.open.is_fresh_allowed = true;
  EXPECT_EQ(named.start(options).value(), 0u) << "the name of a checkpoint is only a sign";
}

// failure: NVIDIA-NeMo/Speech#10228
TEST(FirstLife, IsNeverBesideARunThatLostItsJournal) {
  for (const char* ours : {"RUN", "hint", "fold/00000000000000000256",
                           "data/step-000000000001.a0001.t0/receipt-00000", "metrics/a0001.jsonl"}) {
    for (const bool is_fresh : {false, true}) {
      TestRun run;
      run.world.disk().plant(ours, "something");
      const auto started = run.start(is_fresh ? fresh() : test_options());
      ASSERT_TRUE(started.is(Code::journal_unreadable)) << ours;
      EXPECT_THAT(started.error().what(),
                  HasSubstr(std::string(ours).substr(0, std::string(ours).find('/'))));
      EXPECT_THAT(run.names("journal"), IsEmpty()) << ours;
      EXPECT_EQ(kind_of(started.error().code()).exit_code, ExitCode::nothing_to_resume);
    }
  }
}

TEST(FirstLife, IsNeverBesideAJournalWithoutSlotZero) {
  for (const char* left : {"journal/00000000000000000001", "journal/note"}) {
    for (const bool is_fresh : {false, true}) {
      TestRun run;
      run.world.disk().plant(left, "something");
      EXPECT_TRUE(run.start(is_fresh ? fresh() : test_options()).is(Code::journal_unreadable)) << left;
    }
  }
}

TEST(FirstLife, IsNeverBesideADamagedJournal) {
  for (const std::uint64_t slot : {0U, 1U, 3U}) {
    TestRun run;
    run.train(1, 2);
    run.world.disk().plant(slot_key(slot), "junk");
    EXPECT_TRUE(run.start(fresh()).is(Code::journal_unreadable)) << "junk in slot " << slot;
    EXPECT_TRUE(run.world.disk().destroy(slot_key(slot)));
    EXPECT_TRUE(run.start(fresh()).is(Code::journal_unreadable)) << "a hole at slot " << slot;
  }
}

TEST(FirstLife, TakesAnEmptyJournalWithTemporaryNamesForAnEmptyDirectory) {
  const std::string temporary = slot_key(0) + ".0123456789abcdef.tmp";
  TestRun run;
  run.world.disk().plant(temporary, "torn");
  EXPECT_TRUE(run.start(test_options(), {.env = {{"UNBROKEN_RESUMED", "1"}}}).is(Code::not_found));
  EXPECT_EQ(run.start().value(), 0u);
}

TEST(FirstLife, LeavesOtherFilesAlone) {
  TestRun run;
  run.world.disk().plant("notes.txt", "mine");
  run.world.disk().plant("model/config.json", "{}");
  EXPECT_EQ(run.start().value(), 0u);
  EXPECT_EQ(run.world.disk().peek("notes.txt"), "mine");
  EXPECT_EQ(run.world.disk().peek("model/config.json"), "{}");
}

TEST(FirstLife, AKillBeforeGenesisLeavesAnEmptyDirectory) {
  for (const char* point : {"journal.before_create", "filestore.before_sync", "filestore.before_link"}) {
    TestRun run;
    run.begin([](TestLife& me) { EXPECT_FALSE(me.restore().ok()); }).kill_at_point(point);
    EXPECT_TRUE(run.world.run().ok());
    EXPECT_FALSE(run.world.disk().exists("RUN"));
    EXPECT_FALSE(run.world.disk().exists(slot_key(0))) << point;
    EXPECT_EQ(run.start().value(), 0u) << point;
    EXPECT_THAT(run.names("journal"), Not(Contains(HasSubstr(".tmp")))) << point;
  }
}

TEST(FirstLife, RemovesWhatKilledOnesLeftAndNothingElse) {
  const std::string nonce = ".0123456789abcdef.tmp";
  TestRun run;
  run.train(1, 1);
  const std::vector<std::string> ours{slot_key(0) + nonce,
                                      slot_key(99) + nonce,
                                      "journal/probe" + nonce,
                                      "journal/probe" + nonce + nonce,
                                      "RUN" + nonce,
                                      "hint" + nonce,
                                      "metrics/a0001.account" + nonce};
  const std::vector<std::string> others{"journal/notes" + nonce, "notes" + nonce, "metrics/notes" + nonce,
                                        "journal/" + std::string("00000000000000000099.tmp"),
                                        "mine/RUN" + nonce};
  for (const std::string& name : ours) run.world.disk().plant(name, "torn");
  for (const std::string& name : others) run.world.disk().plant(name, "mine");
  run.begin([](TestLife& me) { (void)me.restore(); }).kill_at_point("open.before_append");
  EXPECT_TRUE(run.world.run().ok());
  for (const std::string& name : ours)
    EXPECT_TRUE(run.world.disk().exists(name)) << "not before OPEN: " << name;
  EXPECT_EQ(run.start().value(), 1u);
  for (const std::string& name : ours) EXPECT_FALSE(run.world.disk().exists(name)) << name;
  for (const std::string& name : others) EXPECT_EQ(run.world.disk().peek(name), "mine") << name;
}

TEST(FirstLife, AKillBetweenGenesisAndRunIsMadeGood) {
  TestRun run;
  run.begin([](TestLife& me) { EXPECT_FALSE(me.restore().ok()); }).kill_at_point("journal.appended");
  EXPECT_TRUE(run.world.run().ok());
  EXPECT_TRUE(run.world.disk().exists(slot_key(0)));
  EXPECT_FALSE(run.world.disk().exists("RUN"));
  // The run exists: a sign of an earlier life is no reason to refuse.
  EXPECT_EQ(run.start(test_options(), {.env = {{"UNBROKEN_RESUMED", "1"}}}).value(), 0u);
  EXPECT_TRUE(run.world.disk().exists("RUN"));
}

TEST(FirstLife, RefusesTheRunObjectOfAnotherRun) {
  TestRun other;
  other.train(1, 1);
  TestRun run(2);
  run.train(1, 1);
  run.world.disk().plant("RUN", *other.world.disk().peek("RUN"));
  EXPECT_TRUE(run.start().is(Code::journal_unreadable));
}

TEST(FirstLife, GoesOnWithADamagedRunObjectAndSaysSo) {
  TestRun run;
  run.train(1, 1);
  run.world.disk().plant("RUN", "junk");
  EXPECT_EQ(run.start().value(), 1u);
  EXPECT_THAT(run.notes, Contains(HasSubstr("RUN is damaged")));
}

TEST(FirstLife, MakesALostRunObjectAgainAndSaysSo) {
  TestRun run;
  run.train(1, 1);
  const auto before = run.world.disk().peek("RUN");
  ASSERT_TRUE(run.world.disk().unlink("RUN").ok());
  EXPECT_EQ(run.start().value(), 1u);
  EXPECT_THAT(run.notes, Contains(HasSubstr("RUN was lost")));
  EXPECT_EQ(run.world.disk().peek("RUN"), before);
}

TEST(FirstLife, TwoAtOnceMakeOneRun) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TestRun run(seed);
    std::vector<std::string> runs;
    EngineOptions options = test_options();
    options.open.is_takeover = true;
    for (int i = 0; i < 2; ++i)
      run.begin(
          [&](TestLife& me) {
            const auto restored = me.restore();
            if (restored.ok()) runs.push_back(me.engine->opened().run);
            EXPECT_TRUE(restored.ok() || restored.is(Code::fenced)) << restored.error().what();
          },
          options);
    EXPECT_EQ(run.world.run().failure, "");
    ASSERT_THAT(runs, Not(IsEmpty()));
    for (const std::string& uuid : runs) EXPECT_EQ(uuid, run.journal().genesis()->run) << "seed " << seed;
  }
}

// failure: NVIDIA-NeMo/Speech#10228
TEST(FirstLife, IsRefusedWhileNothingThatIsThereCanBeLoadedUnlessFresh) {
  TestRun run;
  run.train(1, 2);
  run.damage("1.a1");
  run.damage("2.a1");
  const auto refused = run.start();
  EXPECT_TRUE(refused.is(Code::not_found));
  EXPECT_TRUE(run.start().is(Code::not_found)) << "quarantined for good";
  EXPECT_EQ(run.start(fresh()).value(), 0u);
  EXPECT_FALSE(run.journal().newest_attempt()->open.resume);
}

TEST(FirstLife, FreshGoesOnFromACheckpointThatIsThere) {
  TestRun run;
  run.train(1, 2);
  EXPECT_EQ(run.start(fresh()).value(), 2u);
}

TEST(FirstLife, FreshNeverPassesByACheckpointOfAnotherLineage) {
  TestRun run;
  run.train(1, 2);
  run.train(2, 2, resuming("1"));  // 2.a1 is abandoned but whole
  run.damage("1.a1");
  run.damage("2.a2");
  EXPECT_TRUE(run.start().is(Code::not_found));
  const auto refused = run.start(fresh());
  ASSERT_TRUE(refused.is(Code::not_found)) << "not every checkpoint is quarantined or gone";
  EXPECT_THAT(refused.error().what(), HasSubstr("2.a1"));
  EXPECT_EQ(run.start(resuming("2.a1")).value(), 2u);
}

}  // namespace
}  // namespace unbroken
