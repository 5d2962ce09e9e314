#include "commit/decide.h"

#include <gtest/gtest.h>

#include "base/mutant.h"

namespace unbroken {
namespace {

/// A journal in memory: facts, folded as they come.
class Folded {
 public:
  Folded() { add(Genesis{.run = "00000000-0000-4000-8000-000000000000", .format = 1, .features = {}}); }
  Folded& add(Fact fact) {
    const Record record{history.next_slot(), Nonce{++writer_}, history.head(), 0, std::move(fact)};
    const auto encoded = encode_record(record);
    EXPECT_TRUE(encoded.ok());
    const auto applied = history.apply(record, encoded.value().digest);
    EXPECT_TRUE(applied.ok()) << applied.error().what();
    return *this;
  }
  Folded& open(std::uint32_t attempt) {
    Open fact;
    fact.attempt = attempt;
    return add(fact);
  }
  OpenRef newest() const { return {history.newest_attempt()->slot, history.newest_attempt()->digest}; }
  History history;

 private:
  std::uint64_t writer_ = 0;
};

Commit commit_of(SaveId save) {
  Commit commit;
  commit.save = save;
  return commit;
}

/// What a COMMIT of `save` by the owner `mine` comes to on this prefix; nullopt: an error.
std::optional<CommitFate> fate_of(const History& history, OpenRef mine, SaveId save) {
  CommitFate fate = CommitFate::dropped;
  const auto decision = commit_decision(mine, commit_of(save), fate)(history);
  if (!decision.ok()) return std::nullopt;
  EXPECT_EQ(std::holds_alternative<Fact>(decision.value()), fate == CommitFate::appended);
  return fate;
}

TEST(CommitDecision, AppendsInStepOrderAndOnce) {
  Folded journal;
  journal.open(1).add(commit_of({5, 1, 0}));
  EXPECT_EQ(fate_of(journal.history, journal.newest(), {6, 1, 0}), CommitFate::appended);
  EXPECT_EQ(fate_of(journal.history, journal.newest(), {5, 1, 0}), CommitFate::already);
  EXPECT_EQ(fate_of(journal.history, journal.newest(), {4, 1, 0}), CommitFate::dropped);
  EXPECT_EQ(fate_of(journal.history, journal.newest(), {5, 1, 1}), CommitFate::dropped);
}

TEST(CommitDecision, IsFencedByANewerOpen) {
  Folded journal;
  journal.open(1);
  const OpenRef mine = journal.newest();
  journal.open(2);
  CommitFate fate{};
  EXPECT_TRUE(commit_decision(mine, commit_of({1, 1, 0}), fate)(journal.history).is(Code::fenced));
}

TEST(CommitDecision, TellsAnAttemptByItsRecordAndNotByItsNumber) {
  Folded mine, other;
  mine.open(1);
  other.add(Policy{}).open(1);
  CommitFate fate{};
  EXPECT_TRUE(commit_decision(mine.newest(), commit_of({1, 1, 0}), fate)(other.history).is(Code::fenced));
}

TEST(CommitDecision, NeverCommitsATryThatWasAborted) {
  Folded journal;
  journal.open(1).add(Abort{{3, 1, 0}, "disk full"});
  EXPECT_EQ(fate_of(journal.history, journal.newest(), {3, 1, 0}), CommitFate::dropped);
  EXPECT_EQ(fate_of(journal.history, journal.newest(), {3, 1, 1}), CommitFate::appended);
#ifdef UNBROKEN_WITH_MUTANTS
  active_mutant = "s6_blind_to_abort";
  EXPECT_EQ(fate_of(journal.history, journal.newest(), {3, 1, 0}), CommitFate::appended)
      << "the fault is not planted";
  active_mutant = {};
#endif
}

TEST(AbortDecision, LeavesWhatIsSettled) {
  Folded journal;
  journal.open(1).add(commit_of({5, 1, 0})).add(Abort{{6, 1, 0}, "why"});
  const auto is_appended = [&](SaveId save) {
    return std::holds_alternative<Fact>(abort_decision({save, "why"})(journal.history).value());
  };
  EXPECT_FALSE(is_appended({5, 1, 0}));
  EXPECT_FALSE(is_appended({6, 1, 0}));
  EXPECT_TRUE(is_appended({7, 1, 0}));
}

}  // namespace
}  // namespace unbroken
