#include "journal/read_journal.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "journal/read/catchup.h"
#include "journal/test_store.h"

namespace unbroken {
namespace {

using Purpose = ReadJournal::Purpose;
using Trace = std::vector<std::string>;

/// A store with five slots: GENESIS, OPEN, COMMIT, VERIFIED, OPEN. The head is 5.
struct World {
  TestStore store;
  TestJournal j{&store};
  World() {
    j.genesis().open();
    const SaveId save = j.verified(1);
    j.open(save);
  }
  Result<JournalRead> read(Purpose purpose = Purpose::look, History from = {}) {
    ReadJournal machine(std::move(from), purpose);
    return store.run(machine).take();
  }
  void hint(std::uint64_t slot, const std::string& run = kTestRun) {
    store.objects["hint"] = encode_hint({run, slot, sha256(as_bytes("x")), std::nullopt});
  }
};

TEST(ReadJournal, FoldsToTheHead) {
  World w;
  const auto read = w.read();
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().history.next_slot(), 5U);
  EXPECT_EQ(read.value().history.head(), w.j.history.head());
  EXPECT_EQ(read.value().history.newest()->commit.save.name(), "1.a1");
  EXPECT_FALSE(read.value().hint);
  EXPECT_EQ(w.store.trace,
            (Trace{"list", "get hint", "get 0", "get 1", "get 2", "get 3", "get 4", "get 5", "get 6"}));
}

TEST(ReadJournal, SyncsAndLooksAgainBeforeAnybodyActsOnIt) {
  World w;
  ASSERT_TRUE(w.read(Purpose::decide, w.j.history).ok());
  EXPECT_EQ(w.store.trace, (Trace{"list", "get hint", "get 5", "get 6", "sync", "get 4"}));
}

TEST(ReadJournal, LooksWithoutWriting) {
  World w;
  ASSERT_TRUE(w.read(Purpose::look).ok());
  for (const std::string& told : w.store.trace)
    EXPECT_TRUE(told == "list" || told.starts_with("get")) << told;
}

TEST(ReadJournal, OfNothingIsAnEmptyHistory) {
  for (const Purpose purpose : {Purpose::look, Purpose::decide}) {
    TestStore store;
    ReadJournal machine({}, purpose);
    const auto read = store.run(machine).take();
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read.value().history.next_slot(), 0U);
  }
}

TEST(ReadJournal, GoesOnFromAFold) {
  World w;
  const History before = w.j.history;
  w.j.commit(2);
  const auto read = w.read(Purpose::look, before);
  EXPECT_EQ(read.value().history.newest()->commit.save.name(), "2.a2");
  EXPECT_EQ(w.store.trace, (Trace{"list", "get hint", "get 5", "get 6", "get 7"}));
}

TEST(ReadJournal, ReportsRepairedSlots) {
  World w;
  w.store.slot(2)[10] ^= 1;
  w.store.slot(4).back() ^= 1;
  const auto read = w.read();
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().repaired, (std::vector<std::uint64_t>{2, 4}));
}

TEST(ReadJournal, RefusesAHoleAnywhere) {
  for (std::uint64_t slot = 0; slot < 4; ++slot) {
    for (const Purpose purpose : {Purpose::look, Purpose::decide}) {
      World w;
      w.store.lose_slot(slot);
      EXPECT_TRUE(w.read(purpose).is(Code::journal_unreadable)) << slot;
      World blind;  // also where the listing does not show it
      blind.store.lose_slot(slot);
      blind.store.listing = Trace{};
      EXPECT_TRUE(blind.read(purpose).is(Code::journal_unreadable)) << slot;
    }
  }
}

TEST(ReadJournal, RefusesAWideHoleThatTheListingShows) {
  World w;
  w.store.lose_slot(1);
  w.store.lose_slot(2);
  w.store.lose_slot(3);
  EXPECT_TRUE(w.read().is(Code::journal_unreadable));
}

TEST(ReadJournal, RefusesHigherSlotsWithoutGenesis) {
  World w;
  for (std::uint64_t slot = 0; slot < 4; ++slot) w.store.lose_slot(slot);
  EXPECT_TRUE(w.read().is(Code::journal_unreadable));
}

TEST(ReadJournal, RefusesAFlippedByteInBothCopiesOfAnySlot) {
  for (std::uint64_t slot = 0; slot < 5; ++slot) {
    World w;
    std::string& bytes = w.store.slot(slot);
    bytes[5] ^= 1;
    bytes[bytes.size() / 2 + 5] ^= 1;
    EXPECT_TRUE(w.read().is(Code::journal_unreadable)) << slot;
  }
}

TEST(ReadJournal, RefusesARecordOfAnotherPlace) {
  World w;
  w.store.slot(3) = w.store.slot(2);
  EXPECT_TRUE(w.read().is(Code::journal_unreadable));
}

TEST(ReadJournal, RefusesARecordOfAnotherJournal) {
  World w, other;
  TestJournal fork{&other.store};
  fork.nonce = 9000;
  fork.genesis().open();
  w.store.slot(1) = other.store.slot(1);
  EXPECT_TRUE(w.read().is(Code::journal_unreadable));
}

TEST(ReadJournal, RefusesJunkAtTheHead) {
  for (const std::string& junk :
       {std::string(), std::string("junk"), std::string(65536, '\0'), std::string(65537, '\0')}) {
    World w;
    w.store.slot(5) = junk;
    const auto read = w.read();
    EXPECT_TRUE(read.is(Code::journal_unreadable)) << junk.size();
  }
}

TEST(ReadJournal, ReadsJunkAgainBeforeItBelievesIt) {
  World w;
  const std::string whole = w.store.slot(4);
  w.store.slot(4) = "torn";
  int reads = 0;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "get 4" && ++reads == 2) w.store.slot(4) = whole;
    return std::nullopt;
  };
  EXPECT_TRUE(w.read().ok());
}

TEST(ReadJournal, GivesUpOnJunkThatChanges) {
  World w;
  int reads = 0;
  w.store.slot(5) = "junk";
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "get 5") w.store.slot(5) += "k";
    reads += told == "get 5" ? 1 : 0;
    return std::nullopt;
  };
  EXPECT_TRUE(w.read().is(Code::journal_unreadable));
  EXPECT_EQ(reads, 4);
}

/// Junk in slot 5 and, in slot 6, VOID as `change` leaves it.
Result<JournalRead> read_voided(const std::function<void(Record&)>& change = {}) {
  World w;
  w.store.slot(5) = "junk";
  Record record{6, Nonce{1}, w.j.history.head(), 0, Void{5, sha256(as_bytes("junk"))}};
  if (change) change(record);
  w.store.slot(6) = encode_record(record).value().bytes;
  return w.read();
}

TEST(ReadJournal, SkipsJunkThatIsDeclaredVoid) {
  const auto read = read_voided();
  ASSERT_TRUE(read.ok()) << read.error().what();
  EXPECT_EQ(read.value().history.next_slot(), 7U);
  EXPECT_EQ(read.value().history.next_attempt(), 4U);
}

TEST(ReadJournal, RefusesAVoidThatDoesNotFit) {
  const auto no = [](const std::function<void(Record&)>& change) {
    return read_voided(change).is(Code::journal_unreadable);
  };
  EXPECT_TRUE(no([](Record& r) { std::get<Void>(r.fact).slot = 4; }));
  EXPECT_TRUE(no([](Record& r) { std::get<Void>(r.fact).seen = sha256(as_bytes("other junk")); }));
  EXPECT_TRUE(no([](Record& r) { r.previous = sha256(as_bytes("junk")); }));
  EXPECT_TRUE(no([](Record& r) { r.slot = 7; }));
  EXPECT_TRUE(no([](Record& r) { r.fact = Policy{}; }));
}

TEST(ReadJournal, RefusesALaterVersion) {
  World w;
  Json later = open_sealed_twice(w.store.slot(4)).value().value;
  later["type"] = "LATER";
  w.store.slot(4) = seal_twice(later).value();
  const auto read = w.read();
  EXPECT_TRUE(read.is(Code::unsupported));
  EXPECT_NE(read.error().what().find("slot 4"), std::string::npos) << read.error().what();
}

TEST(ReadJournal, SkipsAnUnknownRecordButKeepsItInTheChain) {
  World w;
  w.j.add(Reserved{"LATER", false, {{"x", 1}}});
  w.j.commit(2);
  const auto read = w.read();
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().history.next_slot(), 7U);
  EXPECT_EQ(read.value().history.newest()->commit.save.name(), "2.a2");
}

TEST(Hint, BehindTheHeadSaysNothing) {
  for (std::uint64_t slot = 0; slot < 5; ++slot) {
    World w;
    w.hint(slot);
    const auto read = w.read();
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read.value().hint->slot, slot);
  }
}

/// The journal was cut, the hint says so.
bool refuses_a_cut_journal(Purpose purpose) {
  World w;
  w.hint(5);
  return w.read(purpose).is(Code::journal_unreadable);
}

TEST(Hint, BeyondTheHeadMeansLostRecords) {
  EXPECT_TRUE(refuses_a_cut_journal(Purpose::look));
  EXPECT_TRUE(refuses_a_cut_journal(Purpose::decide));
  TestStore empty;
  empty.objects["hint"] = encode_hint({kTestRun, 0, {}, std::nullopt});
  ReadJournal machine({}, Purpose::look);
  EXPECT_TRUE(empty.run(machine).take().is(Code::journal_unreadable));
}

TEST(Hint, OfAnotherRunOrUnreadableSaysNothing) {
  World w;
  w.hint(1000, "another run");
  ASSERT_TRUE(w.read().ok());
  EXPECT_FALSE(w.read().value().hint);
  for (const std::string& junk : {std::string(), std::string("junk"), std::string(5000, 'x')}) {
    w.store.objects["hint"] = junk;
    EXPECT_TRUE(w.read().ok()) << junk.size();
  }
  w.store.objects["hint"] = encode_hint({kTestRun, 1000, {}, std::nullopt});
  w.store.objects["hint"][8] ^= 1;
  EXPECT_TRUE(w.read().ok());
  w.store.before = [](const std::string& told) -> std::optional<Event> {
    if (told != "get hint") return std::nullopt;
    return ActionFailed{"hint", Error(Code::unavailable, "EIO")};
  };
  EXPECT_TRUE(w.read().ok());
}

TEST(Hint, IsReadBeforeTheJournalSoThatGrowthIsNoLoss) {
  World w;
  w.store.after = [&, is_first = true](const std::string& told, Event&) mutable {
    if (told != "get 0" || !is_first) return;
    is_first = false;
    w.j.commit(2);
    w.hint(5);
  };
  EXPECT_EQ(w.read().value().history.next_slot(), 6U);
}

void look_past_a_stale_lookup(bool is_hinted) {
  World w;
  if (is_hinted) {
    w.hint(4);
    w.store.listing = Trace{};
  }
  int lists = 0;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    lists += told == "list" ? 1 : 0;
    if (told == "get 4" && lists < 2) return GotObject{slot_key(4), std::nullopt};
    return std::nullopt;
  };
  const auto read = w.read();
  ASSERT_TRUE(read.ok()) << read.error().what();
  EXPECT_EQ(read.value().history.next_slot(), 5U);
}

// The hint or the listing is fresh, but the look-up of slot 4 is answered from a cache until the folder is
// listed again.
TEST(Hint, BeyondAStaleHeadIsLookedAtAgain) {
  look_past_a_stale_lookup(true);
}
TEST(Listing, BeyondAStaleHeadIsLookedAtAgain) {
  look_past_a_stale_lookup(false);
}

TEST(Listing, ThatIsStaleSaysNothing) {
  for (const Trace& names :
       {Trace{}, Trace{slot_key(0).substr(8)}, Trace{"x", "00000000000000000009.tmp", ".."}}) {
    World w;
    w.store.listing = names;
    EXPECT_TRUE(w.read().ok());
  }
}

TEST(Listing, OfASlotThatIsNotThereSaysNothing) {
  World w;
  w.store.listing = Trace{slot_key(9).substr(8)};
  const auto read = w.read();
  ASSERT_TRUE(read.ok()) << read.error().what();
  EXPECT_EQ(w.store.trace.back(), "get 9");
}

TEST(Listing, OfASlotBeyondTheHeadMeansLostRecords) {
  for (const std::uint64_t slot : {std::uint64_t{7}, std::uint64_t{1000}, UINT64_MAX}) {
    World w;
    w.store.slot(slot) = "anything";
    EXPECT_TRUE(w.read().is(Code::journal_unreadable)) << slot;
  }
}

TEST(ReadJournal, ReportsEveryFailedAction) {
  for (const char* failing : {"list", "get 0", "get 4", "get 5", "get 6", "sync"}) {
    World w;
    w.store.before = [&](const std::string& told) -> std::optional<Event> {
      if (told != failing) return std::nullopt;
      return ActionFailed{"x", Error(Code::unavailable, "EIO")};
    };
    EXPECT_TRUE(w.read(Purpose::decide).is(Code::unavailable)) << failing;
  }
}

TEST(ReadJournal, FoldsAgainWhenARecordIsLostInTheSync) {
  World w;
  w.store.before = [&, is_first = true](const std::string& told) mutable -> std::optional<Event> {
    if (told == "sync" && std::exchange(is_first, false)) w.store.lose_slot(4);
    return std::nullopt;
  };
  const auto read = w.read(Purpose::decide);
  // The listing had shown slot 4 before it was lost; it is not there any more and says nothing.
  ASSERT_TRUE(read.ok()) << read.error().what();
  EXPECT_EQ(read.value().history.next_slot(), 4U);
}

TEST(ReadJournal, RefusesAFoldThatTheStorageNoLongerHolds) {
  World w;
  const History stood = w.j.history;
  w.store.lose_slot(4);
  EXPECT_TRUE(w.read(Purpose::decide, stood).is(Code::journal_unreadable));
  World replaced;
  TestJournal other{&replaced.store};
  other.nonce = 7000;
  other.genesis().open();
  other.verified(1);
  other.open().open();
  EXPECT_TRUE(replaced.read(Purpose::look, stood).is(Code::journal_unreadable));
}

TEST(Slots, HaveNamesOfTwentyDigits) {
  EXPECT_EQ(slot_key(7), "journal/00000000000000000007");
  EXPECT_EQ(slot_from_name("00000000000000000007"), 7U);
  EXPECT_EQ(slot_from_name("18446744073709551615"), UINT64_MAX);
  for (const char* name : {"", "7", "000000000000000000007", "18446744073709551616", "0000000000000000000x",
                           "-0000000000000000007", "00000000000000000007.tmp"})
    EXPECT_EQ(slot_from_name(name), std::nullopt) << name;
}

#ifdef UNBROKEN_WITH_MUTANTS
TEST(Mutants, HintTrustedAcceptsACutJournal) {
  const WithMutant mutant("hint_trusted");
  EXPECT_FALSE(refuses_a_cut_journal(Purpose::look));
}
#endif

/// Runs a machine as a driver does: what is asked for together is answered together, in its order.
struct Rounds {
  std::size_t count = 0, widest = 0;
  template <class M>
  void run(M& machine, TestStore& store) {
    for (std::vector<Action> pending = machine.start(); !pending.empty() && count < 10'000; ++count) {
      widest = std::max(widest, pending.size());
      std::vector<Event> events;
      // Any order of the calls, as several workers have: here the last first.
      for (auto action = pending.rbegin(); action != pending.rend(); ++action)
        events.insert(events.begin(), store.perform(*action));
      pending.clear();
      for (const Event& event : events)
        for (Action& next : machine.on(event)) pending.push_back(std::move(next));
    }
    ASSERT_TRUE(machine.is_over());
  }
};

struct LongJournal {
  TestStore store;
  TestJournal j{&store};
  explicit LongJournal(std::uint64_t slots) {
    j.genesis().open();
    while (j.history.next_slot() < slots) j.commit(j.history.next_slot());
  }
  Result<JournalRead> read(Rounds& rounds) {
    ReadJournal machine({}, Purpose::decide);
    rounds.run(machine, store);
    return machine.take();
  }
};

TEST(ReadJournal, ReadsManySlotsAtOnceAndNoneBeyondTheHeadInVain) {
  LongJournal w(1000);
  Rounds rounds;
  const auto read = w.read(rounds);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().history.head(), w.j.history.head());
  EXPECT_EQ(rounds.widest, 64U);
  EXPECT_LT(rounds.count, 30U);
  std::size_t gets = 0;
  for (const std::string& told : w.store.trace)
    gets += told.starts_with("get ") && told != "get hint" ? 1 : 0;
  EXPECT_EQ(gets, 1000U + 2 + 1 + 3)
      << "the head, the slot after it, the last one again, and three looks for a fold";
  std::uint64_t bytes = 0;
  for (std::uint64_t slot = 0; slot < 1000; ++slot) bytes += w.store.slot(slot).size();
  for (const std::uint64_t slot : {999U, 768U, 512U, 256U}) bytes += w.store.slot(slot).size();
  EXPECT_EQ(read.value().bytes_read, bytes);
}

TEST(ReadJournal, FindsTheHeadWithoutAListingInFewRounds) {
  LongJournal w(1000);
  w.store.listing.emplace();
  Rounds rounds;
  const auto read = w.read(rounds);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().history.head(), w.j.history.head());
  EXPECT_LT(rounds.count, 80U);
  EXPECT_LT(w.store.trace.size(), 1000U * 5 / 4 + 20) << "at most a quarter is asked for in vain";
}

Result<JournalRead> read_one_by_one(TestStore& store) {
  Catchup catchup({}, true);
  for (;;) {
    catchup.ask_alone(catchup.history().next_slot());
    const std::vector<Action> asked = catchup.ask();
    EXPECT_EQ(asked.size(), 1U);
    UNBROKEN_TRY(const Catchup::Next next, catchup.on(store.perform(asked.at(0))));
    if (next == Catchup::Next::stands)
      return JournalRead{catchup.history(), catchup.repaired(), std::nullopt, catchup.bytes_read()};
  }
}

TEST(ReadJournal, ReadingManyAtOnceComesToWhatReadingOneByOneComesTo) {
  const auto outcome = [](const Result<JournalRead>& read) {
    return read.ok() ? read.value().history.head().hex() : read.error().what();
  };
  for (const bool is_listed : {true, false})
    for (std::uint64_t bad = 0; bad < 150; bad += 7)
      for (const std::string harm : {"junk", "flip", "chain", "EIO", "late"}) {
        const auto world = [&](LongJournal& w) {
          if (!is_listed) w.store.listing.emplace();
          if (harm == "junk") w.store.slot(bad) = "junk";
          if (harm == "flip") w.store.slot(bad)[10] ^= 1;  // the first copy
          if (harm == "chain") w.store.slot(bad) = w.store.slot(bad == 0 ? 1 : bad - 1);
          const std::string get = "get " + std::to_string(bad);
          if (harm == "EIO")
            w.store.before = [get](const std::string& told) -> std::optional<Event> {
              if (told != get) return std::nullopt;
              return ActionFailed{told, Error(Code::unavailable, told + ": EIO")};
            };
          // Looked up in vain once, though it and later ones are there.
          if (harm == "late")
            w.store.before = [get, is_first = true](const std::string& told) mutable -> std::optional<Event> {
              if (told != get || !std::exchange(is_first, false)) return std::nullopt;
              return GotObject{told, std::nullopt};
            };
        };
        LongJournal wide(150), narrow(150);
        world(wide);
        world(narrow);
        Rounds rounds;
        const auto many = wide.read(rounds);
        const auto single = read_one_by_one(narrow.store);
        EXPECT_EQ(outcome(many), outcome(single)) << harm << " in slot " << bad;
        if (many.ok() && single.ok()) {
          EXPECT_EQ(many.value().repaired, single.value().repaired);
        }
      }
}

}  // namespace
}  // namespace unbroken
