#include "journal/history.h"

#include <gtest/gtest.h>

#include "journal/test_store.h"

namespace unbroken {
namespace {

std::vector<std::string> names(const std::vector<const Checkpoint*>& checkpoints) {
  std::vector<std::string> out;
  for (const Checkpoint* c : checkpoints) out.push_back(c->commit.save.name());
  return out;
}

using Names = std::vector<std::string>;

std::string newest_name(const History& history) {
  return history.newest() == nullptr ? "none" : history.newest()->commit.save.name();
}

TEST(History, IsEmptyBeforeGenesis) {
  const History history;
  EXPECT_EQ(history.next_slot(), 0U);
  EXPECT_EQ(history.head(), Sha256{});
  EXPECT_EQ(history.next_attempt(), 1U);
  EXPECT_EQ(history.newest(), nullptr);
  EXPECT_TRUE(history.lineage().empty());
  EXPECT_FALSE(history.is_dead({1, 1, 0}));
}

TEST(History, GrowsByOneSlotAndOneDigest) {
  TestJournal j;
  j.genesis().open();
  EXPECT_EQ(j.history.next_slot(), 2U);
  EXPECT_EQ(j.history.genesis()->run, kTestRun);
  EXPECT_EQ(j.history.newest_attempt()->slot, 1U);
  EXPECT_EQ(j.history.newest_attempt()->digest, j.history.head());
}

TEST(History, KeepsItselfWhenARecordIsRefused) {
  TestJournal j;
  j.genesis().open();
  const Sha256 head = j.history.head();
  EXPECT_TRUE(j.try_add(Genesis{"other", 1, {}}).is(Code::journal_unreadable));
  Record record{5, Nonce{1}, head, 0, Intent{}};
  EXPECT_TRUE(j.history.apply(record, head).is(Code::journal_unreadable));  // another slot
  record = {2, Nonce{1}, sha256(as_bytes("x")), 0, Policy{}};
  EXPECT_TRUE(j.history.apply(record, head).is(Code::journal_unreadable));  // another chain
  EXPECT_EQ(j.history.next_slot(), 2U);
  EXPECT_EQ(j.history.head(), head);
}

TEST(History, RefusesAJournalThatDoesNotBeginWithGenesis) {
  TestJournal j;
  EXPECT_TRUE(j.try_add(Policy{}).is(Code::journal_unreadable));
}

TEST(Lineage, FollowsResumePoints) {
  TestJournal j;
  j.genesis().open();
  j.commit(1);
  const SaveId fork = j.commit(10);
  j.commit(20);
  EXPECT_EQ(names(j.history.lineage()), (Names{"20.a1", "10.a1", "1.a1"}));

  j.open(fork);  // rolls back: 20.a1 is abandoned
  EXPECT_EQ(names(j.history.lineage()), (Names{"10.a1", "1.a1"}));
  EXPECT_FALSE(j.history.is_on_lineage({20, 1, 0}));
  j.commit(11);
  const SaveId middle = j.commit(15);
  j.commit(30);
  EXPECT_EQ(names(j.history.lineage()), (Names{"30.a2", "15.a2", "11.a2", "10.a1", "1.a1"}));

  j.open(middle);
  EXPECT_EQ(names(j.history.lineage()), (Names{"15.a2", "11.a2", "10.a1", "1.a1"}));
  j.open(middle);  // an attempt without commits in between
  j.commit(16);
  EXPECT_EQ(names(j.history.lineage()), (Names{"16.a4", "15.a2", "11.a2", "10.a1", "1.a1"}));

  j.open(SaveId{20, 1, 0});  // back onto the branch that was abandoned
  EXPECT_EQ(names(j.history.lineage()), (Names{"20.a1", "10.a1", "1.a1"}));
  EXPECT_TRUE(j.history.is_on_lineage({20, 1, 0}));

  j.open();  // permitted fresh start
  EXPECT_TRUE(j.history.lineage().empty());
  EXPECT_EQ(newest_name(j.history), "none");
}

TEST(Lineage, OffersTheNewestGoodOne) {
  TestJournal j;
  j.genesis().open();
  const SaveId a = j.commit(1), b = j.commit(2), c = j.commit(3);
  EXPECT_EQ(newest_name(j.history), "3.a1");
  j.add(damage(c));
  EXPECT_EQ(newest_name(j.history), "2.a1");
  j.add(Intent{b});
  EXPECT_EQ(newest_name(j.history), "1.a1");
  j.add(damage(a));
  EXPECT_EQ(newest_name(j.history), "none");
  EXPECT_EQ(j.history.lineage().size(), 3U);
}

TEST(Quarantine, IsLiftedByAnotherHostOnly) {
  TestJournal j;
  j.genesis().open();
  const SaveId save = j.verified(1);
  j.add(damage(save, "n1"));
  EXPECT_TRUE(j.history.find(save)->verified.empty());
  j.add(Verified{save, "run", "n1"}).add(Verified{save, "run", ""});
  EXPECT_TRUE(j.history.find(save)->is_quarantined());
  EXPECT_TRUE(j.history.find(save)->verified.empty());
  j.add(Verified{save, "run", "n2"});
  EXPECT_TRUE(j.history.find(save)->is_good());
  EXPECT_EQ(j.history.find(save)->verified.count("run"), 1U);
}

TEST(Attempts, AreNumberedPastVoidedSlots) {
  const Sha256 junk = sha256(as_bytes("junk"));
  TestJournal j;
  j.genesis().open();
  EXPECT_EQ(j.history.next_attempt(), 2U);
  j.history.skip_void(2, junk);
  j.add(Void{2, junk});
  EXPECT_EQ(j.history.next_attempt(), 3U);  // slot 2 may have been attempt 2
  j.history.skip_void(4, junk);
  j.add(Void{4, junk});
  EXPECT_EQ(j.history.next_attempt(), 4U);  // and slot 4 attempt 3
  Open stale;
  stale.attempt = 3;
  EXPECT_TRUE(j.try_add(stale).is(Code::journal_unreadable));
  j.open();
  EXPECT_EQ(j.history.newest_attempt()->open.attempt, 4U);
  EXPECT_EQ(j.history.next_attempt(), 5U);
}

TEST(Void, StandsAfterItsJunkOnly) {
  const Sha256 junk = sha256(as_bytes("junk"));
  TestJournal j;
  j.genesis().open();
  EXPECT_TRUE(j.try_add(Void{1, junk}).is(Code::journal_unreadable));
  j.history.skip_void(2, junk);
  EXPECT_TRUE(j.try_add(Policy{}).is(Code::journal_unreadable));
  EXPECT_TRUE(j.try_add(Void{2, Sha256{}}).is(Code::journal_unreadable));
  EXPECT_TRUE(j.try_add(Void{1, junk}).is(Code::journal_unreadable));
  j.add(Void{2, junk}).add(Policy{});
  EXPECT_EQ(j.history.next_slot(), 5U);
}

TEST(Deleted, LeavesTheFoldButNothingThatFollowsFromIt) {
  TestJournal j;
  j.genesis().open();
  const SaveId first = j.commit(1), second = j.commit(2);
  j.add(Pin{first, Nonce{1}}).add(Unpin{first, Nonce{1}});
  j.open(second);
  j.commit(3);
  for (const SaveId& save : {first, second}) j.add(Intent{save}).add(Deleted{{save}});
  EXPECT_EQ(j.history.find(first), nullptr);
  EXPECT_EQ(names(j.history.lineage()), (Names{"3.a2"}));
  EXPECT_TRUE(j.history.is_dead(first));
  EXPECT_TRUE(j.history.may_be_deleted(first));
  EXPECT_FALSE(j.history.may_be_deleted({3, 2, 0}));
  EXPECT_FALSE(j.history.may_be_deleted({3, 1, 0}));
  EXPECT_FALSE(j.history.may_be_deleted({4, 2, 0}));
  // Two collectors may say the same, and a reader may let go late.
  j.add(Deleted{{first, second}}).add(Intent{first}).add(Unpin{first, Nonce{1}}).add(Untag{first, "x"});
  EXPECT_EQ(j.history.checkpoints().size(), 1U);
  EXPECT_TRUE(j.try_add(Pin{first, Nonce{2}}).is(Code::journal_unreadable));
  EXPECT_TRUE(j.try_add(Verified{first}).is(Code::journal_unreadable));
  EXPECT_TRUE(j.try_add(damage(first)).is(Code::journal_unreadable));
  EXPECT_TRUE(j.try_add(Tag{first, "x"}).is(Code::journal_unreadable));
}

TEST(Deleted, StepIsNeverCommittedAgain) {
  TestJournal j;
  j.genesis().open();
  const SaveId save = j.commit(5);
  j.add(Intent{save}).add(Deleted{{save}});
  Commit commit;
  commit.save = {5, 1, 1};
  EXPECT_TRUE(j.try_add(commit).is(Code::journal_unreadable));
  EXPECT_TRUE(j.history.has_commits());
  EXPECT_TRUE(j.history.checkpoints().empty());
  EXPECT_EQ(newest_name(j.history), "none");
}

TEST(Deleted, LinksOfALineageStay) {
  TestJournal j;
  j.genesis().open();
  const SaveId kept = j.commit(1), link = j.commit(2);
  j.commit(3);
  j.open(link);
  const SaveId last = j.commit(4);
  j.add(Intent{link}).add(Deleted{{link}});
  j.open(last);
  j.commit(5);
  j.add(Intent{last}).add(Deleted{{last}});
  EXPECT_EQ(names(j.history.lineage()), (Names{"5.a3", "1.a1"})) << "3.a1 was given up";
  EXPECT_TRUE(j.history.is_on_lineage(kept));
}

TEST(Attempts, RememberWhatTheyMade) {
  TestJournal j;
  j.genesis().open();
  EXPECT_FALSE(j.history.has_commits());
  const SaveId save = j.commit(1);
  j.commit(2);
  j.add(Intent{save}).add(Deleted{{save}});
  const Attempt& attempt = *j.history.newest_attempt();
  EXPECT_EQ(attempt.commits, 2U);
  EXPECT_EQ(attempt.last_commit->name(), "2.a1");
  EXPECT_EQ(attempt.last_sign_unix_ms, 1'700'000'000'000);
}

// failure: google/orbax#394
TEST(Dead, IsWhatNoCommitCanFollow) {
  TestJournal j;
  j.genesis();
  EXPECT_FALSE(j.history.is_dead({1, 1, 0}));
  j.open();
  EXPECT_FALSE(j.history.is_dead({1, 1, 0}));  // being written
  EXPECT_FALSE(j.history.is_dead({1, 2, 0}));  // of an attempt to come
  j.add(Abort{{5, 1, 0}, ""});
  EXPECT_TRUE(j.history.is_dead({5, 1, 0}));
  EXPECT_FALSE(j.history.is_dead({5, 1, 1}));
  Commit commit;
  commit.save = {5, 1, 1};
  j.add(commit);
  EXPECT_FALSE(j.history.is_dead({5, 1, 1}));
  EXPECT_TRUE(j.history.is_dead({5, 1, 2}));  // a step is committed once
  EXPECT_TRUE(j.history.is_dead({4, 1, 0}));
  EXPECT_FALSE(j.history.is_dead({6, 1, 0}));
  j.add(Intent{{5, 1, 1}});
  EXPECT_TRUE(j.history.is_dead({5, 1, 1}));
  j.open();
  EXPECT_TRUE(j.history.is_dead({6, 1, 0}));
  EXPECT_FALSE(j.history.is_dead({6, 2, 0}));
}

TEST(ProtectedResume, EndsWithTheFirstCommit) {
  TestJournal j;
  j.genesis().open();
  const SaveId save = j.commit(1);
  EXPECT_EQ(j.history.protected_resume(), std::nullopt);
  j.open(save);
  EXPECT_EQ(j.history.protected_resume(), save);
  EXPECT_TRUE(j.try_add(Intent{save}).is(Code::journal_unreadable));
  j.commit(2);
  EXPECT_EQ(j.history.protected_resume(), std::nullopt);
}

TEST(History, RefusesContradictions) {
  const auto base = [] {
    TestJournal j;
    j.genesis().open();
    j.commit(10);              // 10.a1
    j.open(SaveId{10, 1, 0});  // a2
    j.commit(20);              // 20.a2
    j.add(Abort{{30, 2, 0}, ""});
    j.commit(40);
    j.add(Intent{{40, 2, 0}});
    j.commit(50);
    j.add(Pin{{50, 2, 0}, Nonce{1}});
    j.commit(60);
    j.add(damage({60, 2, 0}));
    return j;
  };
  const auto commit_of = [](SaveId save) {
    Commit commit;
    commit.save = save;
    return commit;
  };
  const auto open_of = [](std::uint32_t attempt, std::optional<SaveId> resume) {
    Open open;
    open.attempt = attempt;
    open.resume = resume;
    return open;
  };
  const SaveId none{7, 7, 7}, condemned{40, 2, 0}, pinned{50, 2, 0}, damaged{60, 2, 0};
  const std::vector<std::pair<const char*, Fact>> refused = {
      {"a commit of an older attempt", commit_of({70, 1, 0})},
      {"a commit of an attempt that was not opened", commit_of({70, 3, 0})},
      {"a commit twice", commit_of({60, 2, 0})},
      {"a commit of a step that was committed", commit_of({60, 2, 1})},
      {"a commit out of order", commit_of({55, 2, 0})},
      {"an attempt twice", open_of(2, std::nullopt)},
      {"an attempt of before", open_of(1, std::nullopt)},
      {"a resume from nothing", open_of(3, none)},
      {"a resume from what is condemned", open_of(3, condemned)},
      {"a resume from what is damaged", open_of(3, damaged)},
      {"an abort of a commit", Abort{{60, 2, 0}, ""}},
      {"an abort for another attempt", Abort{{70, 1, 0}, ""}},
      {"an intent for nothing", Intent{none}},
      {"an intent for what is pinned", Intent{pinned}},
      {"a deletion of nothing", Deleted{{none}}},
      {"a deletion of what was not condemned", Deleted{{condemned, pinned}}},
      {"a pin of what is condemned", Pin{condemned, Nonce{1}}},
      {"a pin of nothing", Pin{none, Nonce{1}}},
      {"an unpin of nothing", Unpin{none, Nonce{1}}},
      {"a quarantine of what is condemned", damage(condemned)},
      {"a quarantine of nothing", damage(none)},
      {"a verification of what is condemned", Verified{condemned}},
      {"a verification of nothing", Verified{none}},
      {"a second genesis", Genesis{kTestRun, 1, {}}},
      {"a void out of place", Void{3, {}}},
  };
  for (const auto& [what, fact] : refused) {
    TestJournal j = base();
    EXPECT_TRUE(j.try_add(fact).is(Code::journal_unreadable)) << what;
  }
  const std::vector<std::pair<const char*, Fact>> allowed = {
      {"an abort twice", Abort{{30, 2, 0}, ""}},
      {"an intent twice", Intent{condemned}},
      {"a deletion", Deleted{{condemned}}},
      {"another pin", Pin{pinned, Nonce{2}}},
      {"an unpin of another pin", Unpin{pinned, Nonce{2}}},
      {"an unpin", Unpin{pinned, Nonce{1}}},
      {"a quarantine twice", damage(damaged)},
      {"a jump in attempts", open_of(9, pinned)},
  };
  for (const auto& [what, fact] : allowed) {
    TestJournal j = base();
    const auto added = j.try_add(fact);
    EXPECT_TRUE(added.ok()) << what << ": " << added.error().what();
  }
}

TEST(Aborted, TryIsNeverCommitted) {
  TestJournal j;
  j.genesis().open();
  j.add(Abort{{1, 1, 0}, ""});
  EXPECT_TRUE(j.history.is_aborted({1, 1, 0}));
  EXPECT_FALSE(j.history.is_aborted({1, 1, 1}));
  Commit commit;
  commit.save = {1, 1, 0};
  EXPECT_TRUE(j.try_add(commit).is(Code::journal_unreadable));
  commit.save = {1, 1, 1};
  EXPECT_TRUE(j.try_add(commit).ok());
}

TEST(Seal, EndsSavingButNotCare) {
  TestJournal j;
  j.genesis().open();
  const SaveId save = j.commit(1);
  j.add(Reserved{"SEAL", true, Json::object()});
  EXPECT_TRUE(j.history.is_sealed());
  Commit commit;
  commit.save = {2, 1, 0};
  Open open;
  open.attempt = 2;
  for (const Fact& fact : {Fact(commit), Fact(open), Fact(Abort{{2, 1, 0}, ""}), Fact(Policy{})})
    EXPECT_TRUE(j.try_add(fact).is(Code::journal_unreadable)) << type_of(fact);
  j.add(Verified{save})
      .add(Pin{save, Nonce{1}})
      .add(Unpin{save, Nonce{1}})
      .add(damage(save))
      .add(Intent{save});
  j.add(Deleted{{save}}).add(Reserved{"LATER", false, Json::object()});
}

/// Two readers pin one checkpoint and one of them lets go: may it be condemned?
bool second_pin_holds() {
  TestJournal j;
  j.genesis().open();
  const SaveId save = j.commit(1);
  j.add(Pin{save, Nonce{1}}).add(Pin{save, Nonce{2}}).add(Unpin{save, Nonce{1}});
  return !j.history.find(save)->pins.empty();
}

TEST(Pins, AreReleasedByTheirOwner) {
  EXPECT_TRUE(second_pin_holds());
  TestJournal j;
  j.genesis().open();
  const SaveId save = j.commit(1);
  j.add(Pin{save, Nonce{1}}).add(Unpin{save, Nonce{1}});
  EXPECT_TRUE(j.history.find(save)->pins.empty());
}

#ifdef UNBROKEN_WITH_MUTANTS
TEST(Mutants, UnnamedPinsReleaseEachOther) {
  const WithMutant mutant("unnamed_pins");
  EXPECT_FALSE(second_pin_holds());
}

TEST(Mutants, S6BlindToAbortCommitsAnAbortedTry) {
  const WithMutant mutant("s6_blind_to_abort");
  TestJournal j;
  j.genesis().open();
  j.add(Abort{{1, 1, 0}, ""});
  Commit commit;
  commit.save = {1, 1, 0};
  EXPECT_TRUE(j.try_add(commit).ok());
}

TEST(Mutants, NoFenceCommitsForAnOlderAttempt) {
  const WithMutant mutant("no_fence");
  TestJournal j;
  j.genesis().open().open();
  Commit commit;
  commit.save = {1, 1, 0};
  EXPECT_TRUE(j.try_add(commit).ok());
}
#endif

}  // namespace
}  // namespace unbroken
