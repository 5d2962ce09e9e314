#include "engine/read/reader.h"

#include "engine/test_run.h"

namespace unbroken {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// What a load comes to: the name that was loaded, or an error.
Result<std::string> loaded(TestRun& run, std::string_view at, std::vector<FellBack>* fell_back = nullptr) {
  Result<std::string> out = Error(Code::bug, "it did not run");
  const auto load = [&](TestLife& me) -> Result<std::string> {
    UNBROKEN_TRY(Reader reader, Reader::open(me.seams, at, me.by()));
    UNBROKEN_TRY(const std::vector<TensorTarget> targets, me.model.targets(reader.saved()));
    auto read = reader.read(targets, me.by());
    while (read.is(Code::corrupt) && at == "newest") {
      UNBROKEN_DO(reader.next_older(me.by()));
      read = reader.read(targets, me.by());
    }
    UNBROKEN_DO(read);
    EXPECT_TRUE(me.model.is_of(reader.saved().commit.save.step));
    if (fell_back != nullptr) *fell_back = reader.fell_back();
    return reader.saved().commit.save.name();
  };
  const DiskImage before = run.world.disk().image();
  run.live([&](TestLife& me) { out = load(me); });
  EXPECT_EQ(run.world.disk().image().hash(), before.hash()) << "a load writes nothing";
  return out;
}

TEST(Reader, LoadsWhatWasNamed) {
  TestRun run;
  run.train(1, 3);
  EXPECT_EQ(loaded(run, "newest").value(), "3.a1");
  EXPECT_EQ(loaded(run, "2").value(), "2.a1");
  EXPECT_EQ(loaded(run, "1.a1").value(), "1.a1");
  EXPECT_TRUE(loaded(run, "9").is(Code::not_found));
  EXPECT_TRUE(loaded(run, "x").is(Code::bad_argument));
}

TEST(Reader, FallsBackFromTheNewestOnly) {
  TestRun run;
  run.train(1, 4);
  run.damage("3.a1");
  ASSERT_TRUE(run.world.disk().destroy(run.object("4.a1", "manifest-", ".json")));
  std::vector<FellBack> fell_back;
  EXPECT_EQ(loaded(run, "newest", &fell_back).value(), "2.a1");
  ASSERT_EQ(fell_back.size(), 2u);
  EXPECT_EQ(fell_back[0].save.name(), "4.a1");
  EXPECT_EQ(fell_back[1].save.name(), "3.a1");
  EXPECT_EQ(fell_back[1].object, run.shard("3.a1"));
  for (const char* at : {"3", "4", "3.a1", "4.a1"}) {
    const auto named = loaded(run, at);
    ASSERT_TRUE(named.is(Code::corrupt)) << at;
    EXPECT_THAT(named.error().what(), HasSubstr(std::string(at).substr(0, 1) + ".a1"));
  }
}

TEST(Reader, NamesAllThatItPassedOverWhereEverythingIsDamaged) {
  EngineOptions options = test_options();
  options.open.policy.keep_last = 100;
  TestRun run;
  run.train(1, 6, options);
  for (const char* name : {"1.a1", "2.a1", "4.a1", "5.a1"}) run.damage(name);
  for (const char* name : {"3.a1", "6.a1"})  // before it was read
    ASSERT_TRUE(run.world.disk().destroy(run.object(name, "manifest-", ".json")));
  const auto none = loaded(run, "newest");
  ASSERT_TRUE(none.is(Code::corrupt));
  EXPECT_THAT(none.error().what(), HasSubstr("can be loaded: 6.a1, 5.a1, 4.a1, 3.a1 and 2 more are damaged "
                                             "(6.a1: "));
  EXPECT_THAT(none.error().what(), HasSubstr(", and none is left"));
  EXPECT_EQ(none.error().next_command(), "unbroken doctor /runs/mlp");
}

TEST(Reader, NamesThoseOfOtherLineagesWhereEverythingIsDamaged) {
  TestRun run;
  run.train(1, 3);
  EngineOptions back = test_options();
  back.open.resume = parse_at("1").value();
  run.train(2, 2, back);
  run.damage("1.a1");
  run.damage("2.a2");
  const auto none = loaded(run, "newest");
  ASSERT_TRUE(none.is(Code::corrupt));
  EXPECT_THAT(none.error().what(), HasSubstr("2.a2, 1.a1 are damaged (2.a2: "));
  EXPECT_THAT(none.error().what(), HasSubstr("on another lineage there are: 3.a1, 2.a1"));
}

TEST(Reader, TellsAnEmptyDirectoryFromOneThatLostItsJournal) {
  TestRun empty;
  EXPECT_TRUE(loaded(empty, "newest").is(Code::not_found));
  TestRun lost;
  lost.world.disk().plant("RUN", "x");
  EXPECT_TRUE(loaded(lost, "newest").is(Code::journal_unreadable));
  TestRun none;
  EXPECT_TRUE(none.start().ok());
  EXPECT_TRUE(loaded(none, "newest").is(Code::not_found));
}

TEST(Reader, TellsWhatVanishedFromDamage) {
  const EngineOptions options = keeping_one();
  TestRun run;
  run.train(1, 2, options);
  run.live([&](TestLife& me) {
    auto reader = Reader::open(me.seams, "newest", me.by());
    ASSERT_TRUE(reader.ok());
    TestLife trainer(me.process, options);
    ASSERT_TRUE(trainer.restore().ok());
    for (std::uint64_t step = 3; step <= 5; ++step) ASSERT_TRUE(trainer.save_fully(step).ok());
    ASSERT_TRUE(trainer.close().ok());
    const auto targets = me.model.targets(reader.value().saved()).value();
    EXPECT_TRUE(reader.value().read(targets, me.by()).is(Code::vanished));
  });
}

TEST(Reader, TellsWhatVanishedBeforeItWasDescribed) {
  const EngineOptions options = keeping_one();
  TestRun run;
  run.train(1, 1, options);
  // It has read the journal and stands before the manifest, for an hour.
  run.world.faults().plan({.kind = FaultKind::hang,
                           .op = SimOp::open_read,
                           .path = "data/*manifest*",
                           .hang = std::chrono::hours(1)});
  run.begin([](TestLife& me) {
    const auto reader = Reader::open(me.seams, "1", me.by());
    EXPECT_TRUE(reader.is(Code::vanished)) << (reader.ok() ? "ok" : reader.error().what());
  });
  run.begin(
      [&](TestLife& me) {
        while (run.world.faults().hit_count() == 0) pass(me.seams, std::chrono::milliseconds(1));
        ASSERT_TRUE(me.restore().ok());
        for (std::uint64_t step = 2; step <= 4; ++step) ASSERT_TRUE(me.save_fully(step).ok());
        ASSERT_TRUE(me.close().ok());
      },
      options);
  EXPECT_EQ(run.world.run().failure, "");
  EXPECT_EQ(run.journal().find(SaveId{1, 1, 0}), nullptr) << "it is DELETED";
}

TEST(Reader, FencesNobody) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    TestLife evaluation(me.process);
    auto reader = Reader::open(evaluation.seams, "newest", me.by());
    ASSERT_TRUE(reader.ok());
    EXPECT_TRUE(reader.value().read({}, me.by()).ok());
    EXPECT_TRUE(me.save_fully(2).ok());
  });
}

/// Reads `at` while a trainer saves the steps up to 5, of which it keeps one.
std::string read_beside_a_trainer(TestRun& run, std::string_view at, Hold hold) {
  std::string out;
  run.live([&](TestLife& me) {
    TestLife trainer(me.process, keeping_one());
    ASSERT_TRUE(trainer.restore().ok());
    auto opened = Reader::open(me.seams, at, me.by(), hold);
    ASSERT_TRUE(opened.ok()) << opened.error().what();
    Reader reader = std::move(opened).value();
    for (std::uint64_t step = 3; step <= 5; ++step) ASSERT_TRUE(trainer.save_fully(step).ok());
    ASSERT_TRUE(trainer.engine->drain(me.by()).ok());
    const auto targets = me.model.targets(reader.saved()).value();
    const auto read = reader.read(targets, me.by());
    out = read.ok() ? reader.saved().commit.save.name() : std::string(name_of(read.error().code()));
    EXPECT_TRUE(reader.close(me.by()).ok());
    EXPECT_TRUE(reader.close(me.by()).ok()) << "again";
    ASSERT_TRUE(trainer.save_fully(6).ok());
    ASSERT_TRUE(trainer.close().ok());
  });
  const History after = run.journal();
  for (const Checkpoint& c : after.checkpoints()) EXPECT_THAT(c.pins, IsEmpty());
  EXPECT_THAT(run.names("pins"), IsEmpty());
  return out;
}

TEST(PinnedReader, HasItsCheckpointWhateverIsSaved) {
  for (const auto hold : {Hold::pin, Hold::if_alive}) {
    TestRun run;
    run.train(1, 2, keeping_one());
    EXPECT_EQ(read_beside_a_trainer(run, "newest", hold), "2.a1");
    EXPECT_EQ(run.journal().find(SaveId{2, 1, 0}), nullptr) << "it goes once nobody reads it";
  }
  TestRun run;
  run.train(1, 2, keeping_one());
  EXPECT_EQ(read_beside_a_trainer(run, "newest", Hold::nothing), "vanished");
}

TEST(PinnedReader, HoldsWhatItFallsBackTo) {
  TestRun run;
  run.train(1, 2);
  ASSERT_TRUE(run.world.disk().destroy(run.object("2.a1", "manifest-", ".json")));
  EXPECT_EQ(read_beside_a_trainer(run, "newest", Hold::pin), "1.a1");
}

TEST(PinnedReader, LetsGoOfWhatItCannotRead) {
  TestRun run;
  run.train(1, 2);
  ASSERT_TRUE(run.world.disk().destroy(run.object("2.a1", "manifest-", ".json")));
  run.live(
      [&](TestLife& me) { EXPECT_TRUE(Reader::open(me.seams, "2", me.by(), Hold::pin).is(Code::corrupt)); });
  EXPECT_THAT(run.names("pins"), IsEmpty());
  EXPECT_THAT(run.journal().find(SaveId{2, 1, 0})->pins, IsEmpty());
}

TEST(PinnedReader, ChoosesAgainWhatWasCondemnedMeanwhile) {
  TestRun run;
  run.train(1, 1, keeping_one());
  // It has read the journal and stands before its first heartbeat, for an hour.
  run.world.faults().plan(
      {.kind = FaultKind::hang, .op = SimOp::rename, .path = "pins/*", .hang = std::chrono::hours(1)});
  run.begin([](TestLife& me) {
    auto reader = Reader::open(me.seams, "newest", me.by(), Hold::pin);
    ASSERT_TRUE(reader.ok()) << reader.error().what();
    EXPECT_EQ(reader.value().saved().commit.save.name(), "4.a2");
    EXPECT_TRUE(reader.value().close(me.by()).ok());
  });
  run.begin(
      [&](TestLife& me) {
        while (run.world.faults().hit_count() == 0) pass(me.seams, std::chrono::milliseconds(1));
        ASSERT_TRUE(me.restore().ok());
        for (std::uint64_t step = 2; step <= 4; ++step) ASSERT_TRUE(me.save_fully(step).ok());
        ASSERT_TRUE(me.close().ok());
      },
      keeping_one());
  EXPECT_EQ(run.world.run().failure, "");
  EXPECT_THAT(run.names("pins"), IsEmpty());
}

/// A run that was closed, by a process that is still there; then somebody reads it.
void expect_still_closed(Hold hold, bool is_written) {
  TestRun run;
  run.begin([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    ASSERT_TRUE(me.close().ok());
    const DiskImage before = run.world.disk().image();
    auto reader = Reader::open(me.seams, "newest", me.by(), hold);
    ASSERT_TRUE(reader.ok());
    EXPECT_TRUE(reader.value().close(me.by()).ok());
    EXPECT_EQ(run.world.disk().image().hash() != before.hash(), is_written);
    pass(me.seams, std::chrono::hours(1));
  });
  run.begin([](TestLife& me) {
    pass(me.seams, std::chrono::minutes(1));
    const auto restored = me.restore();
    EXPECT_TRUE(restored.ok()) << restored.error().what();
  });
  EXPECT_EQ(run.world.run().failure, "");
}

TEST(PinnedReader, LeavesARunClosed) {
  expect_still_closed(Hold::pin, true);
  expect_still_closed(Hold::if_alive, false);
}

TEST(PinnedReader, IsRefusedByStorageThatTakesNothingUnlessItNeedNotPin) {
  TestRun run;
  run.train(1, 1);
  EXPECT_TRUE(run.start().ok());
  run.live([](TestLife& me) { ASSERT_TRUE(me.restore().ok()); });  // and is killed: not closed
  run.live([&](TestLife& me) {
    run.world.faults().plan({.kind = FaultKind::no_space, .op = SimOp::write, .path = "pins/*", .count = 2});
    EXPECT_TRUE(Reader::open(me.seams, "newest", me.by(), Hold::pin).is(Code::no_space));
    auto reader = Reader::open(me.seams, "newest", me.by(), Hold::if_alive);
    ASSERT_TRUE(reader.ok()) << reader.error().what();
    EXPECT_TRUE(reader.value().read({}, me.by()).ok());
  });
}

}  // namespace
}  // namespace unbroken
