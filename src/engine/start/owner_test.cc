#include "engine/start/owner.h"

#include "engine/test_run.h"
#include "journal/test_store.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

/// A life that owns the run and stands still, then what a second start comes to.
Result<std::uint64_t> start_beside(TestRun& run, EngineOptions options = test_options(),
                                   SpawnOptions spawn = {}) {
  SimProcess& owner = run.begin(
      [](TestLife& me) {
        ASSERT_TRUE(me.restore().ok());
        ASSERT_TRUE(me.save_fully(1).ok());
        (void)me.train(1);  // stands still here
      },
      test_options(), {.env = {{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "3"}}});
  owner.pause_at_point("step.boundary");
  EXPECT_EQ(run.world.run().why, SimEnd::Why::idle);
  EXPECT_EQ(owner.state(), SimProcess::State::paused);
  Result<std::uint64_t> out = Error(Code::bug, "it did not run");
  run.begin(
      [&](TestLife& me) {
        if (auto restored = me.restore(); !restored.ok()) {
          out = std::move(restored).error();
        } else {
          out = me.start();
        }
      },
      std::move(options), std::move(spawn));
  EXPECT_TRUE(run.world.run().ok());
  return out;
}

TEST(Owner, ThatIsAliveIsNamed) {
  TestRun run;
  const auto started = start_beside(run);
  ASSERT_TRUE(started.is(Code::bad_argument)) << "a stopped process is alive";
  EXPECT_THAT(started.error().what(), HasSubstr("attempt 1"));
  EXPECT_THAT(started.error().what(), HasSubstr("process 1000 on node-0"));
  EXPECT_THAT(started.error().what(), HasSubstr("SLURM_JOB_ID=77 task 3"));
  EXPECT_THAT(started.error().what(), HasSubstr("takeover=True"));
  EXPECT_EQ(started.error().next_command(), "kill 1000");
  EXPECT_EQ(run.journal().attempts().size(), 1u) << "a refusal writes nothing";
}

TEST(Owner, ThatIsAliveIsFencedByATakeover) {
  TestRun run;
  EngineOptions options = test_options();
  options.open.is_takeover = true;
  EXPECT_EQ(start_beside(run, options).value(), 1u);
  EXPECT_EQ(run.journal().attempts().size(), 2u);
}

TEST(Owner, OnAnotherHostIsFencedAtOnce) {
  TestRun run;
  EXPECT_EQ(start_beside(run, test_options(), {.host = "node-1"}).value(), 1u);
}

TEST(Owner, ThatDiedIsNoHindrance) {
  TestRun run;
  SimProcess& owner = run.begin([](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    (void)me.train(1);
  });
  owner.kill_at_point("step.boundary");
  EXPECT_TRUE(run.world.run().ok());
  EXPECT_EQ(owner.state(), SimProcess::State::killed);
  EXPECT_EQ(run.start().value(), 1u);
}

TEST(Owner, ThatClosedIsNotLookedFor) {
  TestRun run;
  SimProcess& owner = run.begin([](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    ASSERT_TRUE(me.close().ok());
    UNBROKEN_POINT("test.after_close");
  });
  owner.pause_at_point("test.after_close");
  EXPECT_TRUE(run.world.run().ok());
  EXPECT_EQ(owner.state(), SimProcess::State::paused);
  run.begin([](TestLife& me) { EXPECT_TRUE(me.restore().ok()); });
  EXPECT_TRUE(run.world.run().ok());
  EXPECT_EQ(run.journal().attempts().size(), 2u);
}

// failure: NVIDIA-NeMo/Megatron-Bridge#4839
TEST(Owner, OfThisVeryProcessIsFenced) {
  TestRun run;
  run.live([](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.save_fully(1).ok());
    TestLife again(me.process);
    const auto restored = again.restore();
    ASSERT_TRUE(restored.ok()) << restored.error().what();
    EXPECT_EQ(again.start(), 1u);
    EXPECT_TRUE(me.save_fully(2).is(Code::fenced));
    EXPECT_TRUE(again.save_fully(2).ok());
  });
}

/// What is decided about an owner who is alive but for what `change` makes of its record.
Result<> decided(const std::function<void(Owner&)>& change, std::optional<std::uint64_t> closed = {}) {
  TestRun run;
  Result<> out = Error(Code::bug, "it did not run");
  SimProcess& other = run.begin([](TestLife&) { UNBROKEN_POINT("test.alive"); });
  other.pause_at_point("test.alive");
  EXPECT_TRUE(run.world.run().ok());
  run.begin([&](TestLife& me) {
    TestJournal journal;
    journal.genesis();
    Open open;
    open.attempt = 1;
    open.owner = this_owner(me.seams);
    open.owner.pid = other.self().pid;
    open.owner.start_ticks = other.self().start_ticks;
    change(open.owner);
    journal.add(open);
    std::optional<Hint> hint;
    if (closed) hint = Hint{kTestRun, 1, journal.history.head(), closed};
    out = check_owner(me.seams, journal.history, hint, false);
  });
  EXPECT_TRUE(run.world.run().ok());
  return out;
}

TEST(Owner, CountsOnlyInThisDirectoryOnThisBootByThisPid) {
  EXPECT_TRUE(decided([](Owner&) {}).is(Code::bad_argument));
  EXPECT_TRUE(decided([](Owner& o) { o.inode += 1; }).ok()) << "a copied directory";
  EXPECT_TRUE(decided([](Owner& o) { o.device += 1; }).ok()) << "another device";
  EXPECT_TRUE(decided([](Owner& o) { o.boot_id = "earlier"; }).ok()) << "another boot";
  EXPECT_TRUE(decided([](Owner& o) { o.host = "elsewhere"; }).ok()) << "another host";
  EXPECT_TRUE(decided([](Owner& o) { o.start_ticks += 1; }).ok()) << "a pid that was given again";
}

TEST(Owner, IsClosedOnlyByAHintOfItsOwnOpen) {
  EXPECT_TRUE(decided([](Owner&) {}, 1).ok());
  EXPECT_TRUE(decided([](Owner&) {}, 0).is(Code::bad_argument)) << "an earlier attempt closed";
}

TEST(Owner, NamesTheJob) {
  TestRun run;
  const auto job = [&](std::map<std::string, std::string> env) {
    std::string out;
    run.live([&](TestLife& me) { out = this_owner(me.seams).job; }, test_options(), {.env = std::move(env)});
    return out;
  };
  EXPECT_EQ(job({}), "");
  EXPECT_EQ(job({{"SLURM_JOB_ID", "5"}}), "SLURM_JOB_ID=5");
  EXPECT_EQ(job({{"SLURM_JOB_ID", ""}, {"TORCHELASTIC_RUN_ID", "x"}}), "TORCHELASTIC_RUN_ID=x");
  EXPECT_EQ(job({{"UNBROKEN_JOB", "pod-1"}, {"SLURM_PROCID", "1"}}), "UNBROKEN_JOB=pod-1");
}

}  // namespace
}  // namespace unbroken
