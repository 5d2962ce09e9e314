#include "journal/append.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "journal/read_journal.h"
#include "journal/test_store.h"

namespace unbroken {
namespace {

using Trace = std::vector<std::string>;

constexpr Nonce kMe{42};

/// Appends POLICY(7, 1): a fact that fits on any prefix.
Decide policy() {
  return [](const History&) -> Result<Decision> { return Decision(Fact(Policy{7, 1})); };
}

/// A store with GENESIS, OPEN (attempt 1) and one COMMIT: the head is 3.
struct World {
  TestStore store;
  TestJournal others{&store};
  World() {
    others.genesis().open();
    others.commit(1);
  }
  Result<Appended> append(Decide decide, History from = {}) {
    Append machine(std::move(from), kMe, 5, std::move(decide));
    return store.run(machine).take();
  }
  /// Writers are the truth: does slot n hold a record of ours?
  bool is_mine(std::uint64_t n) {
    if (!store.has_slot(n)) return false;
    const auto decoded = decode_record(store.slot(n));
    return decoded.ok() && decoded.value().record.writer == kMe;
  }
  int mine() {
    int count = 0;
    for (std::uint64_t n = 0; n < 100; ++n) count += is_mine(n) ? 1 : 0;
    return count;
  }
};

TEST(Append, DoesTheStepsOfTheRuleInOrder) {
  World w;
  const auto appended = w.append(policy(), w.others.history);
  ASSERT_TRUE(appended.ok());
  EXPECT_EQ(w.store.trace,
            (Trace{"get 3", "get 4", "sync", "get 2", "create 3", "sync", "get 3", "get 0", "hint"}));
  EXPECT_EQ(appended.value().record->slot, 3U);
  EXPECT_EQ(appended.value().history.next_slot(), 4U);
  EXPECT_EQ(appended.value().history.head(), appended.value().digest);
  EXPECT_EQ(appended.value().history.policy().keep_last, 7U);
  const Hint hint = decode_hint(w.store.objects["hint"]).value();
  EXPECT_EQ(hint.run, kTestRun);
  EXPECT_EQ(hint.slot, 3U);
  EXPECT_EQ(hint.record, appended.value().digest);
  EXPECT_EQ(hint.closed, std::nullopt);
}

TEST(Append, ReadsTheSlotAfterEveryOtherAnswer) {
  for (const Created how : {Created::exists, Created::unknown}) {
    World w;
    w.store.after = [&](const std::string& told, Event& answer) {
      if (told == "create 3") std::get<CreatedObject>(answer).how = how;
    };
    ASSERT_TRUE(w.append(policy(), w.others.history).ok());
    EXPECT_EQ(w.store.trace, (Trace{"get 3", "get 4", "sync", "get 2", "create 3", "get 3", "sync", "get 3",
                                    "get 0", "hint"}));
    EXPECT_EQ(w.mine(), 1);
  }
}

TEST(Append, TakesAFailureThatTookPlaceForASuccess) {
  World w;
  w.store.after = [&](const std::string& told, Event& answer) {
    if (told == "create 3") answer = ActionFailed{slot_key(3), Error(Code::unavailable, "EIO")};
  };
  ASSERT_TRUE(w.append(policy(), w.others.history).ok());
  EXPECT_TRUE(w.is_mine(3));
}

TEST(Append, ReportsAFailureThatDidNotTakePlace) {
  for (const Code code : {Code::unavailable, Code::no_space, Code::late, Code::stopped}) {
    World w;
    w.store.before = [&](const std::string& told) -> std::optional<Event> {
      if (told != "create 3") return std::nullopt;
      return ActionFailed{slot_key(3), Error(code, "as told")};
    };
    EXPECT_TRUE(w.append(policy(), w.others.history).is(code));
    EXPECT_EQ(w.mine(), 0);
    EXPECT_FALSE(w.store.objects.contains("hint"));
  }
}

// failure: DataBiosphere/toil#4333
TEST(Append, RepeatsACreateWhoseFateIsUnknown) {
  World w;
  int lost = 0;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told != "create 3" || ++lost > 2) return std::nullopt;
    return CreatedObject{slot_key(3), Created::unknown};
  };
  ASSERT_TRUE(w.append(policy(), w.others.history).ok());
  EXPECT_EQ(w.store.trace, (Trace{"get 3", "get 4", "sync", "get 2", "create 3", "get 3", "create 3", "get 3",
                                  "create 3", "sync", "get 3", "get 0", "hint"}));
}

TEST(Append, ForgetsAFailureThatEndedInALostRace) {
  World w;
  w.store.before = [&, is_unknown = true](const std::string& told) mutable -> std::optional<Event> {
    if (told == "create 3") {
      w.others.add(Policy{9, 9});
      return ActionFailed{slot_key(3), Error(Code::no_space, "ENOSPC")};
    }
    if (told != "create 4" || !std::exchange(is_unknown, false)) return std::nullopt;
    return CreatedObject{slot_key(4), Created::unknown};
  };
  ASSERT_TRUE(w.append(policy(), w.others.history).ok());
  EXPECT_TRUE(w.is_mine(4));
}

TEST(Append, FindsItsOwnLateCreate) {
  // The first create is answered "unknown" and lands after the slot was looked at.
  World w;
  std::string late;
  Append machine(w.others.history, kMe, 5, policy());
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told != "create 3") return std::nullopt;
    if (late.empty()) {
      late = "on its way";
      return CreatedObject{slot_key(3), Created::unknown};
    }
    return std::nullopt;
  };
  w.store.after = [&](const std::string& told, Event& answer) {
    // The second create finds the slot taken by the first.
    if (told == "create 3" && std::get<CreatedObject>(answer).how == Created::created)
      std::get<CreatedObject>(answer).how = Created::exists;
  };
  const auto appended = w.store.run(machine).take();
  ASSERT_TRUE(appended.ok());
  EXPECT_EQ(appended.value().record->slot, 3U);
  EXPECT_EQ(w.mine(), 1);
}

TEST(Append, GivesUpOnAStorageThatTakesNothing) {
  World w;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told != "create 3") return std::nullopt;
    return CreatedObject{slot_key(3), Created::unknown};
  };
  EXPECT_TRUE(w.append(policy(), w.others.history).is(Code::unavailable));
  EXPECT_EQ(std::count(w.store.trace.begin(), w.store.trace.end(), "create 3"), 9);
}

TEST(Append, DecidesAgainWhereverAnotherWriterIsFirst) {
  // Another writer takes the next slot just before, and just after, each action of a quiet append.
  for (std::size_t at = 0; at < 9; ++at) {
    for (const bool is_before : {true, false}) {
      World w;
      std::size_t count = 0;
      const auto interfere = [&] {
        if (!w.store.has_slot(3)) w.others.add(Policy{9, 9});
      };
      w.store.before = [&](const std::string&) -> std::optional<Event> {
        if (is_before && count == at) interfere();
        return std::nullopt;
      };
      w.store.after = [&](const std::string&, Event&) {
        if (!is_before && count == at) interfere();
        ++count;
      };
      std::vector<std::uint64_t> prefixes;
      const auto appended = w.append(
          [&](const History& history) -> Result<Decision> {
            prefixes.push_back(history.next_slot());
            return Decision(Fact(Policy{7, 1}));
          },
          w.others.history);
      ASSERT_TRUE(appended.ok()) << at << appended.error().what();
      EXPECT_EQ(w.mine(), 1) << at;
      const std::uint64_t slot = appended.value().record->slot;
      EXPECT_TRUE(w.is_mine(slot)) << at;
      EXPECT_EQ(prefixes.back(), slot) << at;  // decided on exactly what it extends
      // And the journal reads as one chain.
      ReadJournal reader({}, ReadJournal::Purpose::look);
      const auto read = w.store.run(reader).take();
      ASSERT_TRUE(read.ok()) << at << read.error().what();
    }
  }
}

TEST(Append, StandsDownOnWhatAnotherWriterSaid) {
  World w;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "create 3" && !w.store.has_slot(3)) w.others.open();
    return std::nullopt;
  };
  const auto decide = [](const History& history) -> Result<Decision> {
    if (history.newest_attempt()->open.attempt != 1) return Error(Code::fenced, "attempt 2 took over");
    return Decision(Fact(Policy{7, 1}));
  };
  EXPECT_TRUE(w.append(decide, w.others.history).is(Code::fenced));
  EXPECT_EQ(w.mine(), 0);
}

TEST(Append, StandsWithoutWriting) {
  World w;
  const auto appended = w.append([](const History&) -> Result<Decision> { return Decision(Stand{}); });
  ASSERT_TRUE(appended.ok());
  EXPECT_EQ(appended.value().record, std::nullopt);
  EXPECT_EQ(appended.value().history.next_slot(), 3U);
  EXPECT_EQ(w.store.trace, (Trace{"get 0", "get 1", "get 2", "get 3", "get 4", "sync", "get 2", "get 0"}));
}

TEST(Append, IsStarvedOnlyAfterManyRaces) {
  for (const int races : {64, 65}) {
    World w;
    int lost = 0;
    w.store.before = [&](const std::string& told) -> std::optional<Event> {
      if (told.starts_with("create") && lost < races) {
        ++lost;
        w.others.add(Policy{9, 9});
      }
      return std::nullopt;
    };
    const auto appended = w.append(policy(), w.others.history);
    EXPECT_EQ(appended.ok(), races == 64);
    EXPECT_EQ(appended.is(Code::unavailable), races == 65);
    EXPECT_EQ(w.mine(), races == 64 ? 1 : 0);
  }
}

/// A record of another writer was read but not synced; the server restarts during our sync and loses it.
TEST(Append, FoldsAgainWhenAnUnsyncedRecordWasLost) {
  World w;
  const History stood = w.others.history;
  w.others.open();
  bool is_lost = false;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "sync" && !is_lost) {
      is_lost = true;
      w.store.lose_slot(3);
    }
    return std::nullopt;
  };
  const auto appended = w.append(policy(), stood);
  ASSERT_TRUE(appended.ok()) << appended.error().what();
  EXPECT_EQ(w.store.trace,
            (Trace{"get 3", "get 4", "get 5", "sync", "get 3", "get 0", "get 1", "get 2", "get 3", "get 4",
                   "sync", "get 2", "create 3", "sync", "get 3", "get 0", "hint"}));
  EXPECT_EQ(appended.value().history.newest_attempt()->open.attempt, 1U);
}

TEST(Append, FoldsAgainWhenAnUnsyncedRecordWasReplaced) {
  World w;
  const History stood = w.others.history;
  TestJournal instead = w.others;
  w.others.open();
  bool is_replaced = false;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "sync" && !is_replaced) {
      is_replaced = true;
      instead.nonce = 5000;
      instead.add(Policy{9, 9});
    }
    return std::nullopt;
  };
  const auto appended = w.append(policy(), stood);
  ASSERT_TRUE(appended.ok()) << appended.error().what();
  EXPECT_EQ(appended.value().record->slot, 4U);
  EXPECT_EQ(appended.value().history.attempts().size(), 1U);
}

TEST(Append, FoldsAgainWhenTheChainTurnsOutToBeAnother) {
  // Slot 3 is read, then another record takes its place and a follower of that one takes slot 4.
  World w;
  const History stood = w.others.history;
  TestJournal instead = w.others;
  w.others.open();
  w.store.before = [&, is_first = true](const std::string& told) mutable -> std::optional<Event> {
    if (told == "get 4" && std::exchange(is_first, false)) {
      instead.nonce = 5000;
      instead.add(Policy{9, 9}).add(Policy{8, 8});
    }
    return std::nullopt;
  };
  const auto appended = w.append(policy(), stood);
  ASSERT_TRUE(appended.ok()) << appended.error().what();
  EXPECT_EQ(appended.value().record->slot, 5U);
  EXPECT_EQ(appended.value().history.attempts().size(), 1U);
}

TEST(Append, RefusesAJournalThatChangesTwice) {
  World w;
  const History stood = w.others.history;
  w.others.open();
  const std::string lost = w.store.slot(3);
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "sync") w.store.lose_slot(3);
    if (told == "get 0") w.store.slot(3) = lost;
    return std::nullopt;
  };
  EXPECT_TRUE(w.append(policy(), stood).is(Code::journal_unreadable));
  EXPECT_EQ(std::count(w.store.trace.begin(), w.store.trace.end(), "get 0"), 1);
  EXPECT_EQ(w.mine(), 0);
}

TEST(Append, RemembersWhatStoodInAnEarlierRound) {
  // Slot 3 is read, synced and looked at again; then the race for slot 4 is lost; then slot 3 is another.
  World w;
  const History stood = w.others.history;
  TestJournal instead = w.others;
  w.others.open();
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "create 4") {
      instead.nonce = 5000;
      instead.add(Policy{9, 9}).add(Policy{8, 8});
    }
    return std::nullopt;
  };
  EXPECT_TRUE(w.append(policy(), stood).is(Code::journal_unreadable));
  EXPECT_EQ(w.mine(), 0);
}

TEST(Append, RefusesAJournalThatLostWhatStoodAfterASync) {
  for (const bool is_replaced : {false, true}) {
    World w;
    w.others.add(Policy{8, 2});
    const History stood = w.others.history;  // of four slots
    w.store.lose_slot(3);
    if (is_replaced) {
      TestJournal cut{&w.store};
      ReadJournal reader({}, ReadJournal::Purpose::look);
      cut.history = w.store.run(reader).take().value().history;
      cut.add(Policy{9, 9}).add(Policy{8, 8});
    }
    EXPECT_TRUE(w.append(policy(), stood).is(Code::journal_unreadable)) << is_replaced;
    EXPECT_EQ(w.mine(), 0);
  }
}

TEST(Append, WritesAgainARecordThatTheSyncLost) {
  World w;
  int syncs = 0;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "sync" && ++syncs == 2) w.store.lose_slot(3);
    return std::nullopt;
  };
  const auto appended = w.append(policy(), w.others.history);
  ASSERT_TRUE(appended.ok());
  EXPECT_EQ(w.store.trace,
            (Trace{"get 3", "get 4", "sync", "get 2", "create 3", "sync", "get 3", "get 0", "get 3", "get 4",
                   "sync", "get 2", "create 3", "sync", "get 3", "get 0", "hint"}));
  EXPECT_TRUE(w.is_mine(3));
}

TEST(Append, KnowsItsOwnRecordWhenItComesBack) {
  World w;
  std::string away;
  int reads = 0;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told != "get 3") return std::nullopt;
    if (++reads == 2) {  // the re-read after the sync
      away = w.store.slot(3);
      w.store.lose_slot(3);
    } else if (reads == 3) {
      w.store.slot(3) = away;
    }
    return std::nullopt;
  };
  const auto appended = w.append(policy(), w.others.history);
  ASSERT_TRUE(appended.ok());
  EXPECT_EQ(appended.value().record->slot, 3U);
  EXPECT_EQ(w.mine(), 1);
}

// failure: DataBiosphere/toil#4333
TEST(Append, LooksAgainWhereALookupWasStale) {
  World w;
  const History stood = w.others.history;
  w.others.open().open();
  w.store.before = [&, is_stale = true](const std::string& told) mutable -> std::optional<Event> {
    if (told == "list") is_stale = false;
    if (told == "get 3" && is_stale) return GotObject{slot_key(3), std::nullopt};
    return std::nullopt;
  };
  const auto appended = w.append(policy(), stood);
  ASSERT_TRUE(appended.ok());
  EXPECT_EQ(appended.value().record->slot, 5U);
}

TEST(Append, ReportsEveryFailedAction) {
  for (const char* failing : {"get 3", "get 4", "sync", "get 2"}) {
    World w;
    w.store.before = [&](const std::string& told) -> std::optional<Event> {
      if (told != failing) return std::nullopt;
      return ActionFailed{"x", Error(Code::unavailable, "EIO")};
    };
    EXPECT_TRUE(w.append(policy(), w.others.history).is(Code::unavailable)) << failing;
    EXPECT_EQ(w.mine(), 0) << failing;
  }
}

// failure: NVIDIA/Megatron-LM#1763
TEST(Append, DoesNotAcknowledgeWithoutTheSecondSyncAndLook) {
  for (const char* failing : {"sync", "get 3"}) {
    World w;
    int seen = 0;
    w.store.before = [&](const std::string& told) -> std::optional<Event> {
      if (told != failing || ++seen != 2) return std::nullopt;
      return ActionFailed{"x", Error(Code::unavailable, "EIO")};
    };
    EXPECT_TRUE(w.append(policy(), w.others.history).is(Code::unavailable)) << failing;
    EXPECT_FALSE(w.store.objects.contains("hint"));
    EXPECT_TRUE(w.is_mine(3));  // it may stand all the same
  }
}

// failure: huggingface/transformers#22170
TEST(Append, DoesNotNeedTheHint) {
  World w;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told != "hint") return std::nullopt;
    return ActionFailed{"hint", Error(Code::no_space, "ENOSPC")};
  };
  EXPECT_TRUE(w.append(policy(), w.others.history).ok());
}

TEST(Append, BeginsAJournal) {
  TestStore store;
  Append machine({}, kMe, 5,
                 [](const History&) -> Result<Decision> { return Decision(Fact(Genesis{kTestRun, 1, {}})); });
  const auto appended = store.run(machine).take();
  ASSERT_TRUE(appended.ok());
  EXPECT_EQ(store.trace, (Trace{"get 0", "get 1", "sync", "create 0", "sync", "get 0", "hint"}));
  EXPECT_EQ(appended.value().history.genesis()->run, kTestRun);
  EXPECT_EQ(decode_hint(store.objects["hint"]).value().slot, 0U);
}

TEST(Append, NeverWritesAContradiction) {
  const SaveId none{7, 1, 0};
  Commit stale;
  stale.save = {9, 9, 0};
  for (const Fact& fact :
       {Fact(Intent{none}), Fact(stale), Fact(Genesis{kTestRun, 1, {}}), Fact(Void{3, {}})}) {
    World w;
    EXPECT_TRUE(w.append([&](const History&) -> Result<Decision> { return Decision(fact); }).is(Code::bug))
        << type_of(fact);
    EXPECT_EQ(w.mine(), 0);
  }
  World w;
  EXPECT_TRUE(w.append([&](const History&) -> Result<Decision> {
                 return Decision(Fact(Policy{0, 0}));
               }).is(Code::bad_argument));
}

TEST(Append, WritesNothingAfterJunk) {
  for (const char* junk : {"", "x", "{}\nsha256:0\n"}) {
    World w;
    w.store.slot(3) = junk;
    EXPECT_TRUE(w.append(policy(), w.others.history).is(Code::journal_unreadable)) << junk;
    EXPECT_EQ(w.mine(), 0);
  }
}

/// The server restarts at the second sync and loses our record. Is what we acknowledge in the journal?
bool acknowledges_only_what_stands() {
  World w;
  int syncs = 0;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "sync" && ++syncs == 2) w.store.lose_slot(3);
    return std::nullopt;
  };
  const auto appended = w.append(policy(), w.others.history);
  return appended.ok() && w.is_mine(3);
}

/// Power goes at the second sync, so that it loses our record but not the hint. Does the journal open again?
bool opens_after_power_loss() {
  World w;
  int syncs = 0;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told != "sync" || ++syncs != 2) return std::nullopt;
    w.store.lose_slot(3);
    return ActionFailed{"journal/", Error(Code::stopped, "power")};
  };
  (void)w.append(policy(), w.others.history);
  w.store.before = nullptr;
  ReadJournal reader({}, ReadJournal::Purpose::decide);
  return w.store.run(reader).take().ok();
}

TEST(Append, AcknowledgesOnlyWhatStands) {
  EXPECT_TRUE(acknowledges_only_what_stands());
}

TEST(Append, HintsOnlyAtWhatStands) {
  EXPECT_TRUE(opens_after_power_loss());
}

#ifdef UNBROKEN_WITH_MUTANTS
TEST(Mutants, NoRereadAfterSyncAcknowledgesALostRecord) {
  const WithMutant mutant("no_reread_after_sync");
  EXPECT_FALSE(acknowledges_only_what_stands());
}

TEST(Mutants, HintBeforeSyncLocksTheJournal) {
  const WithMutant mutant("hint_before_sync");
  EXPECT_FALSE(opens_after_power_loss());
}
#endif

}  // namespace
}  // namespace unbroken
