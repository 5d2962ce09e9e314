#include "restore/decide.h"

#include <gtest/gtest.h>

#include "journal/test_store.h"

namespace unbroken {
namespace {

/// The fact that is appended, or nothing where the decision stands down.
template <class T>
std::optional<T> fact(const Decide& decide, const History& history) {
  const auto decision = decide(history);
  EXPECT_TRUE(decision.ok()) << decision.error().what();
  if (!decision.ok() || std::holds_alternative<Stand>(decision.value())) return std::nullopt;
  return std::get<T>(std::get<Fact>(decision.value()));
}

OpenRef newest_of(const History& history) {
  return {history.newest_attempt()->slot, history.newest_attempt()->digest};
}

At at(std::string_view text) {
  return parse_at(text).value();
}

TestJournal three_steps() {
  TestJournal journal;
  journal.genesis().open();
  for (const std::uint64_t step : {1U, 2U, 3U}) journal.verified(step);
  return journal;
}

TEST(ChooseResume, StartsFreshWhereNothingWasEverCommitted) {
  TestJournal journal;
  journal.genesis();
  EXPECT_FALSE(choose_resume(journal.history, {}, false).value().save);
  journal.open();
  EXPECT_FALSE(choose_resume(journal.history, {}, false).value().save);
  EXPECT_TRUE(choose_resume(journal.history, at("5"), false).is(Code::not_found));
}

TEST(ChooseResume, StartsFreshOnlyWhereAllowedAndNothingIsLeft) {
  TestJournal journal;
  journal.genesis().open();
  journal.verified(1);
  EXPECT_EQ(choose_resume(journal.history, {}, true).value().save, (SaveId{1, 1, 0}));
  journal.add(damage(SaveId{1, 1, 0}));
  EXPECT_TRUE(choose_resume(journal.history, {}, false).is(Code::not_found));
  EXPECT_FALSE(choose_resume(journal.history, {}, true).value().save);
  EXPECT_TRUE(choose_resume(journal.history, at("1"), false).is(Code::corrupt));
  EXPECT_FALSE(choose_resume(journal.history, at("1"), true).value().save);
}

TEST(ChooseResume, NeverStartsFreshBesideAGoodCheckpoint) {
  TestJournal journal = three_steps();
  journal.open(SaveId{1, 1, 0});
  journal.add(damage(SaveId{1, 1, 0}));
  EXPECT_TRUE(choose_resume(journal.history, {}, true).is(Code::not_found));
  EXPECT_TRUE(choose_resume(journal.history, at("9"), true).is(Code::not_found));
}

TEST(ChooseResume, CarriesAWishOutOnce) {
  TestJournal journal = three_steps();
  EXPECT_EQ(choose_resume(journal.history, at("2"), false).value().save, (SaveId{2, 1, 0}));
  EXPECT_FALSE(choose_resume(journal.history, at("2"), false).value().was_carried_out);
  Open open;
  open.attempt = 2;
  open.resume = SaveId{2, 1, 0};
  open.asked = "2";
  journal.add(open);
  const Resume again = choose_resume(journal.history, at("2"), false).value();
  EXPECT_TRUE(again.was_carried_out);
  EXPECT_EQ(again.save, (SaveId{2, 1, 0})) << "the newest of that lineage";
  journal.commit(5);
  EXPECT_EQ(choose_resume(journal.history, at("2"), false).value().save, (SaveId{5, 2, 0}));
  EXPECT_EQ(choose_resume(journal.history, at("2.a1"), false).value().save, (SaveId{2, 1, 0}))
      << "another wish";
}

TEST(ChooseResume, CarriesNoWishOutOnADamagedCheckpoint) {
  TestJournal journal = three_steps();
  Open open;
  open.attempt = 2;
  open.resume = SaveId{2, 1, 0};
  open.asked = "2";
  journal.add(open);
  journal.add(damage(SaveId{2, 1, 0}));
  EXPECT_TRUE(choose_resume(journal.history, at("2"), false).is(Code::corrupt))
      << "it was named, and nothing was trained on it";
}

TEST(OpenDecision, OpensTheNextAttemptFromWhatWasChosen) {
  const TestJournal journal = three_steps();
  Resume resume = choose_resume(journal.history, at("2"), false).value();
  const auto open = fact<Open>(open_decision(resume, false, Open{}), journal.history);
  ASSERT_TRUE(open);
  EXPECT_EQ(open->attempt, 2u);
  EXPECT_EQ(open->resume, (SaveId{2, 1, 0}));
  EXPECT_EQ(open->asked, "2");
  resume = choose_resume(journal.history, {}, false).value();
  EXPECT_EQ(fact<Open>(open_decision(resume, false, Open{}), journal.history)->asked, "");
}

TEST(OpenDecision, StandsDownWhereTheChoiceHasChanged) {
  TestJournal journal = three_steps();
  const Resume resume = choose_resume(journal.history, {}, false).value();
  TestJournal newer = journal;
  newer.verified(4);
  EXPECT_FALSE(fact<Open>(open_decision(resume, false, Open{}), newer.history)) << "a newer COMMIT";
  TestJournal damaged = journal;
  damaged.add(damage(SaveId{3, 1, 0}));
  EXPECT_FALSE(fact<Open>(open_decision(resume, false, Open{}), damaged.history)) << "it is quarantined";
  TestJournal owned = journal;
  owned.open(SaveId{3, 1, 0});
  EXPECT_FALSE(fact<Open>(open_decision(resume, false, Open{}), owned.history))
      << "an owner whom nobody has looked at";
}

TEST(OpenDecision, RefusesWhatCannotBeChosenAnyMore) {
  TestJournal journal = three_steps();
  const Resume resume = choose_resume(journal.history, at("1"), false).value();
  journal.add(Intent{{1, 1, 0}});
  const auto decision = open_decision(resume, false, Open{})(journal.history);
  EXPECT_TRUE(decision.is(Code::not_found));
}

TEST(ChooseResume, TakesTheOneBeforeWhatIsToBeAvoided) {
  TestJournal journal = three_steps();
  const SaveId third{3, 1, 0}, second{2, 1, 0};
  const Resume resume = choose_resume(journal.history, At{}, false, third).value();
  EXPECT_EQ(resume.save, second);
  const auto open = fact<Open>(open_decision(resume, false, Open{}), journal.history);
  ASSERT_TRUE(open);
  EXPECT_EQ(open->resume, second);
  EXPECT_EQ(choose_resume(journal.history, parse_at("3").value(), false, third).value().save, third)
      << "it was asked for";
  EXPECT_EQ(choose_resume(journal.history, At{}, false, second).value().save, third);
  TestJournal single;
  single.genesis().open();
  const SaveId only = single.commit(1);
  EXPECT_TRUE(choose_resume(single.history, At{}, false, only).is(Code::corrupt));
}

TEST(AttemptsInVain, AreThoseInARowThatResumedFromTheSameAndCommittedNothing) {
  TestJournal journal = three_steps();
  EXPECT_EQ(attempts_in_vain(journal.history), 0u) << "it began at step 0";
  const SaveId third{3, 1, 0};
  journal.open(third);
  EXPECT_EQ(attempts_in_vain(journal.history), 0u) << "the one before committed";
  journal.open(third).open(third);
  EXPECT_EQ(attempts_in_vain(journal.history), 2u);
  journal.open(SaveId{2, 1, 0});
  EXPECT_EQ(attempts_in_vain(journal.history), 0u) << "from another one";
  journal.open(third).open(third);
  EXPECT_EQ(attempts_in_vain(journal.history), 1u);
  journal.verified(4);
  journal.open(third);
  EXPECT_EQ(attempts_in_vain(journal.history), 0u);
  const SaveId last = journal.commit(5);
  journal.open(third).add(Intent{last}).add(Deleted{{last}});
  EXPECT_EQ(attempts_in_vain(journal.history), 0u) << "what it committed has gone since";
}

TEST(GenesisDecision, BeginsAnEmptyJournalOnly) {
  TestJournal journal;
  EXPECT_TRUE(fact<Genesis>(genesis_decision({kTestRun, 1, {}}), journal.history));
  journal.genesis();
  EXPECT_FALSE(fact<Genesis>(genesis_decision({kTestRun, 1, {}}), journal.history));
}

TEST(VerifiedDecision, SaysWhatIsNewsOnly) {
  TestJournal journal;
  journal.genesis().open();
  const SaveId save = journal.commit(1);
  EXPECT_TRUE(fact<Verified>(verified_decision({save, "run", "n1"}), journal.history));
  journal.add(Verified{save});
  EXPECT_FALSE(fact<Verified>(verified_decision({save, "run", "n1"}), journal.history)) << "known";
  EXPECT_TRUE(fact<Verified>(verified_decision({save, "nvme", "n1"}), journal.history)) << "another tier";
  EXPECT_FALSE(fact<Verified>(verified_decision({{2, 1, 0}, "run", "n1"}), journal.history))
      << "never committed";
  journal.add(Intent{save});
  EXPECT_FALSE(fact<Verified>(verified_decision({save, "nvme", "n1"}), journal.history)) << "condemned (R6)";
}

TEST(VerifiedDecision, SpeaksAgainOfAQuarantinedOne) {
  TestJournal journal;
  journal.genesis().open();
  const SaveId save = journal.verified(1);
  journal.add(damage(save, "n1"));
  EXPECT_TRUE(fact<Verified>(verified_decision({save, "run", "n2"}), journal.history));
}

TEST(QuarantineDecision, NeedsACheckpointThatIsThereAndNotYetPutAside) {
  TestJournal journal;
  journal.genesis().open();
  const SaveId first = journal.commit(1), second = journal.commit(2);
  EXPECT_TRUE(fact<Quarantine>(quarantine_decision(damage(first)), journal.history));
  EXPECT_FALSE(fact<Quarantine>(quarantine_decision(damage({9, 1, 0})), journal.history))
      << "never committed";
  journal.add(damage(first));
  EXPECT_FALSE(fact<Quarantine>(quarantine_decision(damage(first)), journal.history)) << "known";
  journal.add(Intent{second});
  EXPECT_FALSE(fact<Quarantine>(quarantine_decision(damage(second)), journal.history)) << "it vanished (R8)";
}

TEST(TagDecision, NeedsACheckpointThatIsThere) {
  TestJournal journal;
  journal.genesis().open();
  const SaveId save = journal.commit(1);
  EXPECT_TRUE(fact<Tag>(tag_decision({save, "a"}), journal.history));
  EXPECT_FALSE(fact<Untag>(untag_decision({save, "a"}), journal.history)) << "it has none";
  journal.add(Tag{save, "a"});
  EXPECT_FALSE(fact<Tag>(tag_decision({save, "a"}), journal.history)) << "known";
  EXPECT_TRUE(fact<Untag>(untag_decision({save, "a"}), journal.history));
  journal.add(Untag{save, "a"}).add(Intent{save});
  EXPECT_TRUE(tag_decision({save, "a"})(journal.history).is(Code::not_found)) << "condemned";
  journal.add(Deleted{{save}});
  EXPECT_TRUE(tag_decision({save, "a"})(journal.history).is(Code::not_found));
  EXPECT_TRUE(untag_decision({save, "a"})(journal.history).is(Code::not_found));
}

TEST(PolicyDecision, RecordsAnotherPolicyByTheOwnerOnly) {
  TestJournal journal;
  journal.genesis().open();
  const OpenRef mine = newest_of(journal.history);
  EXPECT_FALSE(fact<Policy>(policy_decision(mine, journal.history.policy()), journal.history));
  EXPECT_TRUE(fact<Policy>(policy_decision(mine, {9, 2}), journal.history));
  EXPECT_TRUE(fact<Policy>(policy_decision(mine, {3, 1}), journal.history));
  journal.open();
  EXPECT_TRUE(policy_decision(mine, {9, 2})(journal.history).is(Code::fenced));
}

}  // namespace
}  // namespace unbroken
