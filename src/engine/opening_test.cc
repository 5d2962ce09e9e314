#include "engine/opening.h"

#include <fmt/format.h>

#include "engine/start/crashes.h"
#include "engine/test_run.h"

namespace unbroken {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Opening, GoesOnFromTheNewestCheckpointAsANewAttempt) {
  TestRun run;
  run.train(1, 3);
  EXPECT_EQ(run.start().value(), 3u);
  const History journal = run.journal();
  EXPECT_EQ(journal.newest_attempt()->open.attempt, 2u);
  EXPECT_EQ(journal.newest_attempt()->open.resume->name(), "3.a1");
}

TEST(Opening, FallsBackPastDamageThatLoadingFinds) {
  TestRun run;
  run.train(1, 3);
  run.damage("3.a1");
  EXPECT_EQ(run.start().value(), 2u);
  ASSERT_EQ(run.fell_back.size(), 1u);
  EXPECT_EQ(run.fell_back[0].save.name(), "3.a1");
  EXPECT_EQ(run.fell_back[0].object, run.shard("3.a1"));
  EXPECT_THAT(run.fell_back[0].what, HasSubstr("model.weight"));
  std::vector<std::string> facts = run.facts();
  facts.erase(facts.begin(), facts.end() - 3);
  EXPECT_THAT(facts, ElementsAre("OPEN", "QUARANTINE", "OPEN"))
      << "the evidence stands before the new choice";
  const History journal = run.journal();
  EXPECT_EQ(journal.newest_attempt()->open.resume->name(), "2.a1");
  EXPECT_EQ(journal.find(SaveId{3, 1, 0})->quarantine->object, run.shard("3.a1"));
}

// failure: sml2h3/dddd_trainer#36
TEST(Opening, FallsBackPastDamageOfEveryKindOfObject) {
  for (const auto& [start, end] : {std::pair("shard-", ".safetensors"), std::pair("shard-", ".json"),
                                   std::pair("shard-", ".sums"), std::pair("manifest-", ".json")}) {
    for (const bool is_missing : {false, true}) {
      TestRun run;
      run.train(1, 2);
      const std::string object = run.object("2.a1", start, end);
      if (is_missing) {
        ASSERT_TRUE(run.world.disk().destroy(object));
      } else {
        ASSERT_TRUE(run.world.disk().cut(object, 100) || run.world.disk().flip_bit(object, 3));
      }
      EXPECT_EQ(run.start().value(), 1u) << object << " " << is_missing;
      ASSERT_EQ(run.fell_back.size(), 1u);
      EXPECT_EQ(run.fell_back[0].object, object);
    }
  }
}

// failure: llnl/scr#174
TEST(Opening, FallsBackPastAnyNumberOfDamagedCheckpoints) {
  constexpr std::uint64_t kDamaged = 70;
  EngineOptions options = test_options();
  options.open.policy.keep_last = 100;
  TestRun run;
  run.train(1, kDamaged + 1, options);
  for (std::uint64_t step = 2; step <= kDamaged + 1; ++step)
    ASSERT_TRUE(run.world.disk().destroy(run.object(fmt::format("{}.a1", step), "manifest-", ".json")));
  EXPECT_EQ(run.start(options).value(), 1u);
  EXPECT_EQ(run.fell_back.size(), kDamaged);
}

TEST(Opening, NeverStartsFromNothingWithWhatWasReadOfADamagedCheckpoint) {
  EngineOptions fresh = test_options();
  fresh.open.is_fresh_allowed = true;
  TestRun run;
  run.train(1, 2);
  run.damage("1.a1");
  run.damage("2.a1");
  const auto refused = run.start(fresh);
  ASSERT_TRUE(refused.is(Code::corrupt)) << "the live objects hold parts of 1.a1";
  EXPECT_THAT(refused.error().what(), testing::HasSubstr("start this program again"));
  EXPECT_THAT(refused.error().what(), testing::HasSubstr("2.a1, 1.a1 are damaged (2.a1: data/"));
  EXPECT_EQ(run.start(fresh).value(), 0u) << "now nothing that is read is damaged";
}

TEST(Opening, NamesAllThatItPutAsideWhereNothingIsLeft) {
  TestRun run;
  run.train(1, 2);
  run.damage("1.a1");
  ASSERT_TRUE(run.world.disk().destroy(run.object("2.a1", "manifest-", ".json")));
  const auto none = run.start();
  ASSERT_TRUE(none.is(Code::not_found));
  EXPECT_THAT(none.error().what(), HasSubstr("2.a1, 1.a1 are damaged (2.a1: data/"));
  EXPECT_EQ(none.error().next_command(), "unbroken doctor /runs/mlp");
}

TEST(Opening, SaysWhatAStartThatBeganNothingPutAside) {
  EngineOptions named = test_options();
  named.open.resume = parse_at("3").value();
  TestRun run;
  run.train(1, 3);
  ASSERT_TRUE(run.world.disk().destroy(run.object("3.a1", "manifest-", ".json")));
  ASSERT_TRUE(run.start(named).is(Code::corrupt));
  EXPECT_EQ(run.start().value(), 2u);
  EXPECT_THAT(run.notes, Contains(AllOf(HasSubstr("3.a1 is damaged (3.a1: data/"),
                                        HasSubstr("an earlier start put aside"))));
  EXPECT_EQ(run.start().value(), 2u);
  EXPECT_THAT(run.notes, IsEmpty()) << "that lineage was given up, and it was said";
}

TEST(Opening, BelievesDamageOnlyTwice) {
  TestRun run;
  run.train(1, 2);
  run.world.faults().plan({.kind = FaultKind::flips_bit, .op = SimOp::read, .path = run.shard("2.a1")});
  EXPECT_EQ(run.start().value(), 2u) << "what was read wrong once is whole";
  EXPECT_THAT(run.fell_back, IsEmpty());
  EXPECT_FALSE(run.journal().find(SaveId{2, 1, 0})->is_quarantined());
}

TEST(Opening, TakesWhatCannotBeReadForNoDamage) {
  for (const char* object : {"*.safetensors", "*.json", "*.sums"}) {
    TestRun run;
    run.train(1, 2);
    run.world.faults().plan(
        {.kind = FaultKind::eio, .op = SimOp::read, .path = std::string("data/*") + object, .count = 100});
    EXPECT_TRUE(run.start().is(Code::unavailable)) << object;
    run.world.faults().stop();
    EXPECT_FALSE(run.journal().find(SaveId{2, 1, 0})->is_quarantined());
    EXPECT_EQ(run.start().value(), 2u);
  }
}

TEST(Opening, ComparesBeforeAnythingIsWritten) {
  TestRun run;
  run.train(1, 2);
  const auto before = run.facts();
  run.live([](TestLife& me) {
    me.model.refusal = Error(Code::mismatch, "another model");
    EXPECT_TRUE(me.restore().is(Code::mismatch));
    EXPECT_TRUE(me.model.is_of(0)) << "the live state was touched";
  });
  EXPECT_EQ(run.facts(), before);
}

TEST(Opening, RefusesToFallBackFromACheckpointThatWasNamed) {
  for (const char* at : {"3", "3.a1"}) {
    TestRun run;
    run.train(1, 3);
    run.damage("3.a1");
    for (int i = 0; i < 3; ++i) {
      const auto started = run.start(resuming(at));
      ASSERT_TRUE(started.is(Code::corrupt)) << at << ", start " << i;
      EXPECT_THAT(started.error().what(), HasSubstr("3.a1"));
      EXPECT_NE(started.error().next_command() + started.error().what(), "");
    }
    EXPECT_EQ(run.start().value(), 2u) << "the newest falls back";
  }
}

TEST(Opening, ResumesFromAStepThatWasNamedOnceThenFromTheNewestOfThatLineage) {
  TestRun run;
  run.train(1, 3);
  run.train(3, 4, resuming("2"));
  History journal = run.journal();
  EXPECT_EQ(journal.newest_attempt()->open.resume->name(), "2.a1");
  EXPECT_EQ(journal.newest_attempt()->open.asked, "2");
  EXPECT_FALSE(journal.is_on_lineage(SaveId{3, 1, 0})) << "abandoned";
  EXPECT_EQ(run.start(resuming("2")).value(), 4u);
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("resume=2 was carried out by an earlier attempt")));
  EXPECT_EQ(run.start(resuming("2")).value(), 4u) << "and again";
  EXPECT_EQ(run.start(resuming("3.a1")).value(), 3u) << "another wish is carried out";
  EXPECT_EQ(run.start(resuming("2")).value(), 2u) << "and so is the first one after it";
}

TEST(Opening, CountsAWishAsCarriedOutBeforeTheFirstSave) {
  TestRun run;
  run.train(1, 3);
  EXPECT_EQ(run.start(resuming("2")).value(), 2u);
  EXPECT_EQ(run.start(resuming("2")).value(), 2u);
  EXPECT_EQ(run.start().value(), 2u) << "the lineage goes on from there";
}

TEST(Opening, RefusesAStepThatIsNotThereAndWritesNothing) {
  TestRun run;
  run.train(1, 3);
  const auto before = run.facts();
  const auto started = run.start(resuming("9"));
  ASSERT_TRUE(started.is(Code::not_found));
  EXPECT_THAT(started.error().what(), HasSubstr("3.a1, 2.a1, 1.a1"));
  EXPECT_EQ(run.facts(), before);
}

TEST(Opening, RecordsAPolicyThatIsNotInForce) {
  EngineOptions options = test_options();
  options.open.policy = {.keep_last = 7, .verified_min = 1};
  TestRun run;
  EXPECT_TRUE(run.start(options).ok());
  EXPECT_EQ(run.journal().policy().keep_last, 7u);
  EXPECT_EQ(run.journal().policy().verified_min, 1u);
  EXPECT_TRUE(run.start(options).ok());
  EXPECT_THAT(run.facts(), ElementsAre("GENESIS", "OPEN", "POLICY", "OPEN")) << "it is in force already";
  options.open.policy.keep_last = 8;
  EXPECT_TRUE(run.start(options).ok());
  EXPECT_EQ(run.journal().policy().keep_last, 8u);
}

TEST(Opening, ProbesBeforeTheFirstRecord) {
  TestRun run;
  EngineOptions options = test_options();
  options.open.probe = [](const Deadline&) -> Result<> { return Error(Code::unsupported, "no links here"); };
  EXPECT_TRUE(run.start(options).is(Code::unsupported));
  EXPECT_FALSE(run.world.disk().exists(slot_key(0)));
}

TEST(Opening, SaysThatTheDiskIsFull) {
  TestRun run;
  run.world.faults().plan({.kind = FaultKind::no_space, .op = SimOp::write, .count = 1000});
  EXPECT_TRUE(run.start().is(Code::no_space));
}

// failure: NVIDIA-NeMo/Speech#7948
TEST(Opening, SurvivesAKillAtEveryPoint) {
  for (const char* point : {"open.before_append", "open.appended", "open.loaded", "journal.before_create",
                            "journal.after_create", "journal.after_sync", "journal.appended"}) {
    TestRun run;
    run.train(1, 2);
    run.begin([](TestLife& me) { EXPECT_FALSE(me.restore().ok()); }).kill_at_point(point);
    EXPECT_EQ(run.world.run().failure, "") << point;
    EXPECT_EQ(run.start().value(), 2u) << point;
  }
}

// failure: llnl/scr#174
TEST(Opening, SaysThatLivesDiedOneAfterTheOtherOnOneCheckpoint) {
  TestRun run;
  run.train(1, 2);
  EXPECT_EQ(run.start().value(), 2u);
  EXPECT_EQ(run.start().value(), 2u);
  EXPECT_EQ(run.start().value(), 2u);
  EXPECT_THAT(run.notes, IsEmpty()) << "they ended in peace, with nothing to do";
  run.train(3, 4);
  const auto die = [&] {
    run.begin([](TestLife& me) { EXPECT_FALSE(me.restore().ok()); }).kill_at_point("open.loaded");
    EXPECT_EQ(run.world.run().failure, "");
  };
  die();
  EXPECT_EQ(run.start().value(), 4u);
  EXPECT_THAT(run.notes, IsEmpty()) << "once may be chance";
  run.train(5, 6);
  die();
  die();
  EXPECT_EQ(run.start().value(), 6u) << "nothing proves that it is the checkpoint";
  EXPECT_THAT(run.notes,
              ElementsAre("warning: the last 2 attempts resumed from 6.a8 as well and ended before "
                          "they saved anything: if it is the checkpoint, resume=\"5.a8\" goes "
                          "back to the one before"));
}

/// The lives of a run whose checkpoints are 1 to 3, each ended while it loaded: by a crash ('c') or a kill
/// ('k'). Each goes on from the newest, and from the one before only after two crashes in a row on it.
void check_lives(const std::string& ends) {
  TestRun run;
  run.train(1, 3);
  std::string crashes;
  std::uint64_t newest = 3;
  std::size_t in_a_row = 0;
  for (const char end : ends) {
    SimProcess& life = run.begin([](TestLife& me) { EXPECT_FALSE(me.restore().ok()); });
    life.kill_at_point("open.loaded");
    EXPECT_EQ(run.world.run().failure, "");
    EXPECT_EQ(run.journal().newest_attempt()->open.resume->step, newest) << ends;
    if (end == 'c') run.world.disk().plant(kCrashesKey, crashes += crash_mark(life.self()) + " 11\n");
    in_a_row = end == 'c' ? in_a_row + 1 : 0;
    if (in_a_row == 2) in_a_row = 0, --newest;
    if (newest == 0) break;
  }
  const auto started = run.start();
  EXPECT_EQ(started.ok() ? started.value() : 0, newest) << ends;
  EXPECT_TRUE(started.ok() || started.is(Code::corrupt)) << ends;
  const auto is_told = Contains(HasSubstr(fmt::format(
      "the last 2 attempts crashed of signal 11 while they loaded {0}.a1: going on from {1}.a1 instead; "
      "resume=\"{0}.a1\" tries it again",
      newest + 1, newest)));
  if (newest > 0 && newest < 3 && ends.ends_with("cc") && in_a_row == 0)
    EXPECT_THAT(run.notes, is_told) << ends;
  else
    EXPECT_THAT(run.notes, Not(is_told)) << ends;
}

// failure: llnl/scr#174
TEST(Opening, PassesOverWhatTwoLivesCrashedOnAndNeverWhatALifeWasKilledOn) {
  constexpr unsigned kLives = 6;
  for (unsigned which = 0; which < 1U << kLives; ++which) {
    std::string ends;
    for (unsigned i = 0; i < kLives; ++i) ends += (which >> i & 1U) != 0 ? 'c' : 'k';
    check_lives(ends);
  }
}

TEST(Opening, EndsAtItsDeadline) {
  TestRun run;
  run.train(1, 2);
  run.world.faults().plan(
      {.kind = FaultKind::hang, .op = SimOp::read, .path = "data/*", .hang = std::chrono::hours(1)});
  run.live([](TestLife& me) {
    const auto restored = me.engine->restore(me.model, me.seams.within(std::chrono::minutes(1)));
    EXPECT_TRUE(restored.is(Code::late)) << (restored.ok() ? "ok" : restored.error().what());
    EXPECT_FALSE(me.engine->is_open());
  });
}

}  // namespace
}  // namespace unbroken
