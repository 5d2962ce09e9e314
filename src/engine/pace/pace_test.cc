// `every="auto"` in whole lives on a simulated clock: what is measured, kept for the next life, and followed.
#include "engine/pace/pace.h"

#include <cmath>

#include "cadence/explain.h"
#include "cadence/formulas.h"
#include "engine/test_run.h"

namespace unbroken {
namespace {

using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::Lt;
using testing::SizeIs;

constexpr double kStep_s = 10;

EngineOptions automatic(const CadenceOptions& cadence) {
  EngineOptions options = test_options();
  options.pace = {Schedule::automatic(), cadence};
  return options;
}

/// What a training does with an engine, in virtual time.
class Trainer {
 public:
  explicit Trainer(TestLife& me) : me_(me) {
    const auto restored = me.restore();
    EXPECT_TRUE(restored.ok()) << restored.error().what();
    step_ = me.start();
  }
  void pass(double seconds) {
    const auto waited = me_.executor.wait(
        [] { return false; }, me_.seams.within(std::chrono::nanoseconds(std::llround(seconds * 1e9))));
    EXPECT_TRUE(waited.is(Code::late));
  }
  /// Trains for so many steps; each save holds the loop up for `stall_s`.
  void train(int steps, double stall_s) {
    for (int i = 0; i < steps; ++i) {
      pass(kStep_s);
      ASSERT_TRUE(me_.train(++step_).ok());
      for (const std::string& line : me_.engine->status().take_messages(true)) lines.push_back(line);
      const bool is_first = std::exchange(is_first_, false);
      if (!me_.engine->is_due(step_) && !is_first) continue;
      save(stall_s);
      saved.push_back(step_);
    }
  }
  void save(double stall_s) {
    me_.engine->begin_save();
    pass(stall_s);
    EXPECT_TRUE(me_.save(step_).ok());
  }
  double interval_s() const { return me_.engine->stats().interval_s; }
  std::uint64_t step() const { return step_; }

  std::vector<std::uint64_t> saved;
  std::vector<std::string> lines;

 private:
  TestLife& me_;
  std::uint64_t step_ = 0;
  bool is_first_ = true;
};

/// A life of the run that trains and then dies, or closes.
enum class Ends : std::uint8_t { killed, closed };
void live(TestRun& run, const EngineOptions& options, int steps, double stall_s, Ends ends,
          const std::function<void(Trainer&, TestLife&)>& look = {}) {
  run.live(
      [&](TestLife& me) {
        Trainer trainer(me);
        trainer.train(steps, stall_s);
        if (look) look(trainer, me);
        if (ends == Ends::closed) {
          if (steps > 0) trainer.save(stall_s);
          EXPECT_TRUE(me.close().ok());
        }
      },
      options);
}

Account account_in(TestRun& run, std::uint32_t attempt) {
  const auto bytes = run.world.disk().peek(account_key(attempt));
  EXPECT_TRUE(bytes) << "no account of attempt " << attempt;
  return bytes ? decode_account(*bytes).value() : Account{};
}

TEST(Pace, SavesAtTheOptimumOfWhatItMeasured) {
  TestRun run;
  live(run, automatic({.mtti_s = 14400}), 120, 2, Ends::closed, [](Trainer& trainer, TestLife& me) {
    EXPECT_NEAR(trainer.interval_s(), exact_interval_s(2, 14400), 0.1 * exact_interval_s(2, 14400));
    ASSERT_THAT(trainer.saved, SizeIs(Gt(4)));
    EXPECT_EQ(trainer.saved[0], 1u) << "the first step is always saved";
    for (std::size_t i = 2; i < trainer.saved.size(); ++i)
      EXPECT_NEAR(static_cast<double>(trainer.saved[i] - trainer.saved[i - 1]) * kStep_s,
                  trainer.interval_s(), kStep_s);
    EXPECT_NEAR(me.engine->stats().step_s, kStep_s, 0.1);
    EXPECT_NEAR(me.engine->stats().saves.last_cost.exposed_s, 2, 0.1) << "from begin_save() on";
  });
}

TEST(Pace, FollowsASaveThatBecomesDearer) {
  TestRun run;
  live(run, automatic({.mtti_s = 14400}), 100, 2, Ends::closed, [](Trainer& trainer, TestLife&) {
    const double before_s = trainer.interval_s();
    const std::size_t saves = trainer.saved.size();
    while (trainer.saved.size() < saves + 4) trainer.train(1, 20);
    EXPECT_GT(trainer.interval_s(), 2 * before_s);
    EXPECT_THAT(trainer.lines, testing::Contains(HasSubstr("auto: every ")));
  });
}

TEST(Pace, InheritsWhatEarlierLivesMeasured) {
  TestRun run;
  const EngineOptions options = automatic({.mtti_s = 14400});
  double before_s = 0;
  live(run, options, 120, 2, Ends::closed,
       [&](Trainer& trainer, TestLife&) { before_s = trainer.interval_s(); });
  live(run, options, 0, 2, Ends::closed, [&](Trainer& trainer, TestLife& me) {
    EXPECT_NEAR(trainer.interval_s(), before_s, 0.1 * before_s) << "before the first save of this life";
    const auto lines = me.engine->status().take_messages(true);
    ASSERT_THAT(lines, SizeIs(1));
    EXPECT_THAT(lines[0], HasSubstr("d = 2.0s a save"));
  });
}

TEST(Pace, CountsLivesThatLostWorkOnly) {
  TestRun run;
  const EngineOptions options = automatic({.mtti_s = 14400});
  live(run, options, 60, 2, Ends::closed);
  live(run, options, 60, 2, Ends::killed);
  live(run, options, 0, 2, Ends::killed);  // no step, no work
  live(run, options, 60, 2, Ends::killed);
  live(run, options, 1, 2, Ends::closed);
  EXPECT_EQ(account_in(run, 5).plan.failures, 2);
  // The lives' own times, whatever the clock on the wall says between them.
  EXPECT_NEAR(account_in(run, 5).plan.node_days * 86400, 3 * 60 * kStep_s, 60);
}

TEST(Pace, TakesNoLongHistoryOfOrderlyEndsForFailures) {
  TestRun run;
  const EngineOptions options = automatic({.mtti_s = 14400});
  live(run, options, 3, 2, Ends::killed);
  live(run, options, 3, 2, Ends::closed);
  EXPECT_EQ(account_in(run, 2).plan.failures, 1);
  for (int i = 0; i < 65; ++i) live(run, options, 2, 2, Ends::closed);
  EXPECT_EQ(account_in(run, 67).plan.failures, 0) << "a life that is too far back says nothing";
  EXPECT_NEAR(account_in(run, 67).plan.node_days * 86400, 64 * 2 * (kStep_s + 2), 64 * 2);
}

TEST(Pace, CountsAClosedLifeWhoseLastStepIsNotSaved) {
  TestRun run;
  run.live(
      [](TestLife& me) {
        Trainer trainer(me);
        trainer.train(3, 2);
        EXPECT_TRUE(me.close().ok());
      },
      automatic({}));
  live(run, automatic({}), 1, 2, Ends::closed);
  EXPECT_EQ(account_in(run, 2).plan.failures, 1);
}

TEST(Pace, FollowsAJobThatDiesMoreOften) {
  TestRun run;
  const EngineOptions options = automatic({.mtti_s = 14400});
  live(run, options, 150, 2, Ends::killed);
  const double rare_s = account_in(run, 1).plan.interval_s;
  for (int i = 0; i < 10; ++i) live(run, options, 40, 2, Ends::killed);
  EXPECT_LT(account_in(run, 11).plan.interval_s, rare_s / 2);
  const double best_s = exact_interval_s(2, 40 * kStep_s);
  EXPECT_NEAR(account_in(run, 11).plan.interval_s, best_s, best_s / 2);
}

TEST(Pace, ShortensAtOnceAfterALifeWithoutASecondSave) {
  TestRun run;
  const EngineOptions options = automatic({.mtti_s = 1e7});
  live(run, options, 20, 2, Ends::killed);
  EXPECT_EQ(account_in(run, 1).plan.interval_s > 20 * kStep_s, true);
  live(run, options, 20, 2, Ends::killed,
       [](Trainer& trainer, TestLife&) { EXPECT_THAT(trainer.saved, SizeIs(Gt(1))); });
}

TEST(Pace, ReturnsToTheOptimumAfterShortLives) {
  TestRun run;
  const EngineOptions options = automatic({.mtti_s = 4000});
  for (int i = 0; i < 8; ++i) live(run, options, 80, 2, Ends::killed);
  const double best_s = account_in(run, 8).plan.interval_s;
  for (int i = 0; i < 4; ++i) live(run, options, 2, 2, Ends::killed);  // each before its second save
  live(run, options, 80, 2, Ends::killed, [&](Trainer& trainer, TestLife&) {
    ASSERT_THAT(trainer.saved, SizeIs(Gt(3)));
    EXPECT_LE(static_cast<double>(trainer.saved[1] - trainer.saved[0]) * kStep_s, best_s / 2)
        << "short at first";
  });
  // What the short lives tell of the failure rate stays; the halving does not.
  const CadencePlan after = account_in(run, 13).plan;
  EXPECT_EQ(after.bound_by, BoundBy::optimum);
  EXPECT_NEAR(after.interval_s, after.exact_s, 0.1 * after.exact_s);
  for (int i = 0; i < 8; ++i) live(run, options, 80, 2, Ends::killed);
  const double usual_s = exact_interval_s(2, 80 * kStep_s);
  EXPECT_NEAR(account_in(run, 21).plan.interval_s, usual_s, 0.1 * usual_s) << "what the long lives ask for";
}

TEST(Pace, KeepsItsBounds) {
  for (const auto& [cadence, interval_s, bound] :
       {std::tuple(CadenceOptions{.mtti_s = 14400, .every_min_s = 600}, 600.0, BoundBy::every_min),
        std::tuple(CadenceOptions{.mtti_s = 14400, .every_max_s = 60}, 60.0, BoundBy::every_max),
        std::tuple(CadenceOptions{.mtti_s = HUGE_VAL}, 3600.0, BoundBy::no_failures)}) {
    TestRun run;
    live(run, automatic(cadence), 20, 2, Ends::closed);
    EXPECT_EQ(account_in(run, 1).plan.interval_s, interval_s);
    EXPECT_EQ(account_in(run, 1).plan.bound_by, bound);
  }
}

TEST(Pace, KeepsAPromise) {
  TestRun run;
  live(run, automatic({.mtti_s = HUGE_VAL, .rpo_s = 120}), 40, 2, Ends::closed,
       [](Trainer& trainer, TestLife&) {
         for (std::size_t i = 1; i < trainer.saved.size(); ++i)
           EXPECT_LE(static_cast<double>(trainer.saved[i] - trainer.saved[i - 1]) * kStep_s + 2, 120);
         EXPECT_THAT(trainer.saved, SizeIs(4));
       });
  EXPECT_EQ(account_in(run, 1).plan.bound_by, BoundBy::rpo);
}

TEST(Pace, SaysThatAPromiseBrokeAndRefusesOneThatIsMadeAnew) {
  TestRun run;
  const EngineOptions promised = automatic({.rpo_s = 30});
  live(run, promised, 20, 40, Ends::closed, [](Trainer& trainer, TestLife& me) {
    EXPECT_THAT(trainer.lines, testing::Contains(HasSubstr("rpo: 30.0s cannot be kept")));
    EXPECT_EQ(me.engine->status().health().state, Health::State::yellow);
  });
  EXPECT_TRUE(run.start(promised).ok()) << "a job that is started again by night goes on";
  const std::vector<std::string> before = run.facts();
  const auto refused = run.start(automatic({.rpo_s = 35}));
  ASSERT_TRUE(refused.is(Code::bad_argument));
  EXPECT_THAT(refused.error().what(), HasSubstr("rpo: 35.0s cannot be kept"));
  EXPECT_EQ(refused.error().next_command(), "unbroken explain /runs/mlp");
  EXPECT_EQ(run.facts(), before) << "a start that is refused opens nothing";
  EXPECT_TRUE(run.start(automatic({.rpo_s = 3500})).ok());
}

TEST(Pace, TriesAgainSoonAfterAFailedSaveAndNamesThePromise) {
  TestRun run;
  live(run, automatic({.mtti_s = HUGE_VAL, .rpo_s = 300}), 60, 2, Ends::closed,
       [&](Trainer& trainer, TestLife& me) {
         EXPECT_TRUE(me.engine->status().health().why.empty());
         run.world.faults().plan(
             {.kind = FaultKind::no_space, .op = SimOp::write, .path = "data/*.safetensors", .count = 6});
         const std::size_t before = trainer.saved.size();
         while (trainer.saved.size() == before) trainer.train(1, 2);
         trainer.lines.clear();
         trainer.train(20, 2);  // 200 s, less than an interval
         EXPECT_THAT(trainer.saved, SizeIs(Gt(before + 4))) << "soon, then more rarely";
         EXPECT_THAT(trainer.lines, testing::Contains(HasSubstr("rpo: 5m 0s was not kept")));
         trainer.train(40, 2);
         EXPECT_EQ(me.engine->status().health().state, Health::State::green) << "it is kept again";
       });
  EXPECT_EQ(account_in(run, 1).plan.breaks, 1u);
  EXPECT_GT(account_in(run, 1).plan.exposed_s, 300);
}

TEST(Account, TellsOfPromisesThatEarlierLivesBroke) {
  for (const bool is_mute : {false, true}) {
    TestRun run;
    const EngineOptions promised = automatic({.mtti_s = HUGE_VAL, .rpo_s = 300});
    live(run, promised, 20, 2, Ends::killed, [&](Trainer& trainer, TestLife&) {
      std::vector<std::string> failing{"data/*"};
      if (is_mute) failing.push_back("*.account*");
      for (const std::string& path : failing)
        run.world.faults().plan({.kind = FaultKind::no_space,
                                 .op = SimOp::write,
                                 .path = path,
                                 .process = "life-1",
                                 .count = 1000000});
      trainer.train(60, 2);
    });
    live(run, promised, 20, 2, Ends::closed, [&](Trainer&, TestLife& me) {
      const KeptPromises kept = read_promises(me.seams, me.engine->opened().history, me.by());
      EXPECT_EQ(kept.breaks, is_mute ? 0U : 1U);
      EXPECT_EQ(kept.exposed_s > 500, !is_mute) << kept.exposed_s;
      EXPECT_GT(kept.unseen_s, 500) << "it was killed, and nobody saw when";
    });
    live(run, promised, 20, 2, Ends::closed, [&](Trainer&, TestLife& me) {
      EXPECT_EQ(read_promises(me.seams, me.engine->opened().history, me.by()).breaks, is_mute ? 0U : 1U);
    });
  }
}

TEST(Account, TellsOfNothingWherePromisesWereKept) {
  TestRun run;
  const EngineOptions promised = automatic({.mtti_s = HUGE_VAL, .rpo_s = 300});
  for (const Ends ends : {Ends::killed, Ends::closed, Ends::closed})
    live(run, promised, 50, 2, ends, [&](Trainer&, TestLife& me) {
      const KeptPromises kept = read_promises(me.seams, me.engine->opened().history, me.by());
      EXPECT_EQ(kept.breaks, 0u);
      EXPECT_EQ(kept.unseen_s, 0);
    });
}

TEST(Account, TakesNoOutageForWorkAtRisk) {
  TestRun run;
  const EngineOptions promised = automatic({.mtti_s = HUGE_VAL, .rpo_s = 300});
  live(run, promised, 50, 2, Ends::killed);
  run.live([](TestLife& me) { pass(me.seams, std::chrono::minutes(30)); }, test_options());  // begins nothing
  live(run, promised, 0, 2, Ends::closed, [&](Trainer&, TestLife& me) {
    EXPECT_EQ(read_promises(me.seams, me.engine->opened().history, me.by()).unseen_s, 0);
  });
}

TEST(Pace, RefusesBoundsThatContradictEachOther) {
  TestRun run;
  EXPECT_TRUE(run.start(automatic({.every_min_s = 60, .every_max_s = 30})).is(Code::bad_argument));
}

TEST(Pace, HoldsToTheFloorAndSkipsNothing) {
  TestRun run;
  run.world.faults().plan({.kind = FaultKind::hang,
                           .op = SimOp::sync,
                           .path = "data/*.safetensors",
                           .count = 1000,
                           .hang = std::chrono::seconds(300)});
  live(run, automatic({.mtti_s = 3600}), 200, 2, Ends::closed, [](Trainer& trainer, TestLife& me) {
    EXPECT_THAT(trainer.lines, testing::Contains(HasSubstr("the floor")));
    EXPECT_EQ(me.engine->stats().saves.skipped, 0u);
    EXPECT_THAT(trainer.saved, SizeIs(Gt(5))) << "one follows the other";
    EXPECT_THAT(trainer.saved, SizeIs(Lt(9)));
  });
}

TEST(Pace, ComparesAGivenScheduleWithTheOptimum) {
  TestRun run;
  EngineOptions options = automatic({.mtti_s = 14400});
  options.pace.schedule = Schedule::every_steps(5).value();
  live(run, options, 21, 2, Ends::closed, [](Trainer& trainer, TestLife&) {
    EXPECT_THAT(trainer.saved, ElementsAre(1, 5, 10, 15, 20));
    EXPECT_THAT(trainer.lines, SizeIs(0));
  });
  const Account account = account_in(run, 1);
  EXPECT_EQ(account.plan.bound_by, BoundBy::given);
  EXPECT_NEAR(account.plan.interval_s, 50, 1);
  EXPECT_NEAR(account.plan.exact_s, exact_interval_s(2, 14400), 5);
}

TEST(Pace, MeasuresTheWayBack) {
  TestRun run;
  live(run, automatic({}), 10, 2, Ends::killed, [](Trainer& trainer, TestLife&) { trainer.pass(1); });
  run.live(
      [](TestLife& me) {
        EXPECT_TRUE(
            me.executor.wait([] { return false; }, me.seams.within(std::chrono::seconds(45))).is(Code::late));
        Trainer trainer(me);
        trainer.train(2, 2);
        EXPECT_TRUE(me.close().ok());
      },
      automatic({}));
  ASSERT_THAT(account_in(run, 2).recoveries_s, SizeIs(1));
  EXPECT_NEAR(account_in(run, 2).recoveries_s[0], 46, 2);
}

TEST(Account, IsOptional) {
  TestRun run;
  live(run, automatic({.mtti_s = 14400}), 40, 2, Ends::killed);
  ASSERT_TRUE(run.world.disk().flip_bit(account_key(1), 100));
  live(run, automatic({.mtti_s = 14400}), 5, 2, Ends::closed);
  const Account after = account_in(run, 2);
  EXPECT_EQ(after.plan.failures, 0) << "nobody knows how that life ended";
  EXPECT_GT(after.plan.node_days, 0.0);
  EXPECT_THAT(after.costs, SizeIs(2)) << "its own only";
}

TEST(Account, NamesThoseThatCannotBeRead) {
  TestRun run;
  for (int i = 0; i < 3; ++i) live(run, automatic({}), 5, 2, Ends::closed);
  ASSERT_TRUE(run.world.disk().flip_bit(account_key(3), 100));
  ASSERT_TRUE(run.world.observer().rename(account_key(2), "metrics/moved").ok());
  const auto read = [&] {
    Result<LastAccount> out = Error(Code::bug, "it did not run");
    run.live([&](TestLife& me) { out = read_account(me.seams, run.journal(), me.by()); });
    return out;
  };
  const LastAccount last = read().value();
  EXPECT_EQ(last.account.attempt, 1u);
  EXPECT_THAT(last.passed_over, ElementsAre(HasSubstr("attempt 3: metrics/a0003.account is damaged"),
                                            "attempt 2: metrics/a0002.account is missing"));
  ASSERT_TRUE(run.world.disk().flip_bit(account_key(1), 100));
  const auto none = read();
  ASSERT_TRUE(none.is(Code::not_found));
  EXPECT_THAT(none.error().what(), HasSubstr("attempt 1: metrics/a0001.account is damaged"));
}

TEST(Account, OfAnotherOpenIsNotBelieved) {
  TestRun run;
  live(run, automatic({}), 40, 2, Ends::killed);
  Account account = account_in(run, 1);
  account.open_slot += 1;
  account.costs.assign(5, {500, 500});
  const std::string text = encode_account(account);
  ASSERT_TRUE(run.world.observer().rename(account_key(1), "metrics/moved").ok());
  ASSERT_TRUE(run.world.observer().append(account_key(1), as_bytes(text)).ok());
  live(run, automatic({}), 3, 2, Ends::closed);
  for (const SaveCost& cost : account_in(run, 2).costs) EXPECT_LT(cost.stall_s, 100);
}

TEST(Account, ReadsBackWhatWasWritten) {
  Account account;
  account.run = "b3a0f9e2-0000-4000-8000-000000000000";
  account.attempt = 3;
  account.costs = {{0.1, 0.2}, {1, 2}};
  account.recoveries_s = {40};
  account.plan.exact_s = account.plan.mtti_s = HUGE_VAL;
  account.plan.bound_by = BoundBy::every_min;
  account.mtti_ci95 = {5, HUGE_VAL};
  account.plan.breaks = 2;
  account.plan.exposed_s = 400;
  account.code = 75;
  account.plan.note = "\x1b[31m";
  EXPECT_EQ(decode_account(encode_account(account)).value().plan.note, "\\x1b[31m");
  account.plan.note = "halved";
  const Account back = decode_account(encode_account(account)).value();
  EXPECT_EQ(encode_account(back), encode_account(account));
  EXPECT_EQ(back.plan.breaks, 2u);
  EXPECT_EQ(back.code, 75);
  account.alive_s = -1;
  EXPECT_TRUE(decode_account(encode_account(account)).is(Code::corrupt));
}

}  // namespace
}  // namespace unbroken
