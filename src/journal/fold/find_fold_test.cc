#include "journal/fold/find_fold.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "journal/read_journal.h"
#include "journal/test_store.h"

namespace unbroken {
namespace {

using Purpose = ReadJournal::Purpose;
using Trace = std::vector<std::string>;

/// Adds what a long training adds, SUMMARYs where they are due, up to slot `end`.
void grow(TestJournal& j, std::uint64_t end, bool is_folding = true) {
  std::uint64_t step = j.history.newest_attempt() == nullptr ? 0 : j.history.next_slot();
  std::vector<SaveId> kept;
  for (const Checkpoint& c : j.history.checkpoints()) kept.push_back(c.commit.save);
  const auto add = [&](Fact fact) {
    if (is_folding && j.history.is_summary_due() && j.history.next_slot() < end) j.summary();
    if (j.history.next_slot() < end) j.add(std::move(fact));
  };
  if (j.history.next_slot() == 0) add(Genesis{kTestRun, 1, {}});
  for (std::uint64_t i = 0; j.history.next_slot() < end; ++i) {
    if (i % 60 == 0) {
      Open open;
      open.attempt = j.history.next_attempt();
      if (const Checkpoint* newest = j.history.newest()) open.resume = newest->commit.save;
      open.owner = {"4711", "node-17", "5d1c9f0e-8f0e-4a56-9d15-0d1d0b1f8f3a", 4026531836, 1234, 99,
                    64768,  131};
      add(open);
    }
    Commit commit;
    commit.save = {++step, j.history.newest_attempt()->open.attempt, 0};
    commit.metrics = {{"loss", 1.0 / static_cast<double>(step)}, {"lr", 3e-4}};
    add(commit);
    if (j.history.find(commit.save) == nullptr) return;
    add(Verified{commit.save, "run", "node-17"});
    kept.push_back(commit.save);
    if (kept.size() <= 4) continue;
    add(Intent{kept.front()});
    add(Deleted{{kept.front()}});
    kept.erase(kept.begin());
  }
}

/// 30 slots with a SUMMARY in each fourth.
struct Folded {
  TestStore store;
  TestJournal j{&store};
  explicit Folded(std::uint64_t end = 30, bool is_folding = true) {
    j.history = History(4);
    grow(j, end, is_folding);
  }
  Result<JournalRead> read(Purpose purpose = Purpose::look) {
    store.trace.clear();
    ReadJournal machine(History(4), purpose);
    return store.run(machine).take();
  }
  std::size_t got() const {
    return static_cast<std::size_t>(
        std::count_if(store.trace.begin(), store.trace.end(),
                      [](const auto& told) { return told.starts_with("get ") && told != "get hint"; }));
  }
  FoldRef ref(std::uint64_t slot) {
    return {slot, std::get<Summary>(decode_record(store.slot(slot)).value().record.fact)};
  }
  std::string& fold(std::uint64_t slot) { return store.objects[fold_key(ref(slot))]; }
  void lose_fold(std::uint64_t slot) { store.objects.erase(fold_key(ref(slot))); }
  /// Reads, and expects what all records come to.
  void expect_all(Purpose purpose = Purpose::look) {
    const auto now = read(purpose);
    ASSERT_TRUE(now.ok()) << now.error().what();
    EXPECT_EQ(said_by(now.value().history), said_by(j.history));
  }
};

TEST(FindFold, StartsFromTheNewestFold) {
  Folded w;
  w.expect_all();
  EXPECT_EQ(w.store.trace, (Trace{"list", "get hint", "get 28", "get " + fold_key(w.ref(28)), "get 28",
                                  "get 29", "get 30", "get 31"}));
  EXPECT_EQ(w.read().value().history.fold_every(), 4U);
}

TEST(FindFold, GoesOnFromItWithWhatIsActedOn) {
  Folded w;
  w.expect_all(Purpose::decide);
  EXPECT_EQ(w.store.trace[w.store.trace.size() - 2], "sync");
  EXPECT_EQ(w.store.trace.back(), "get 29");
}

TEST(FindFold, PassesOverWhatDoesNotCheckOut) {
  const std::vector<std::pair<const char*, std::function<void(Folded&)>>> damages = {
      {"lost", [](Folded& w) { w.lose_fold(28); }},
      {"flipped", [](Folded& w) { w.fold(28)[100] ^= 1; }},
      {"empty", [](Folded& w) { w.fold(28).clear(); }},
      {"longer", [](Folded& w) { w.fold(28) += "x"; }},
      {"another one", [](Folded& w) { w.fold(28) = w.fold(24); }},
  };
  for (const auto& [what, damage] : damages) {
    SCOPED_TRACE(what);
    Folded w;
    damage(w);
    w.expect_all();
    EXPECT_EQ(std::count(w.store.trace.begin(), w.store.trace.end(), "get " + fold_key(w.ref(24))), 1);
    EXPECT_EQ(std::count(w.store.trace.begin(), w.store.trace.end(), "get 23"), 0);
  }
}

TEST(FindFold, PassesOverAFoldThatCannotBeRead) {
  Folded w;
  const std::string newest = "get " + fold_key(w.ref(28));
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told != newest) return std::nullopt;
    return ActionFailed{told, Error(Code::unavailable, "EIO")};
  };
  w.expect_all();
}

TEST(FindFold, ReadsTheRecordsWhereNoFoldIsLeft) {
  Folded w;
  for (std::uint64_t slot = 4; slot < 30; slot += 4) w.lose_fold(slot);
  w.expect_all();
  EXPECT_EQ(std::count(w.store.trace.begin(), w.store.trace.end(), "get 0"), 1);
}

TEST(FindFold, ReadsAJournalThatHasNone) {
  Folded w(30, false);
  w.store.objects["hint"] = encode_hint({kTestRun, 29, Sha256{}, std::nullopt});
  w.expect_all();
  EXPECT_EQ(w.got(), 30U + 2 + 7) << "every slot, two beyond, and each place of a SUMMARY once";
  grow(w.j, 44);  // and one that has them from some slot on
  w.expect_all();
  EXPECT_EQ(std::count(w.store.trace.begin(), w.store.trace.end(), "get 0"), 0);
  w.lose_fold(40);
  w.expect_all();
  EXPECT_EQ(std::count(w.store.trace.begin(), w.store.trace.end(), "get 35"), 0);
  w.lose_fold(36);
  w.lose_fold(32);
  w.expect_all();
  EXPECT_EQ(std::count(w.store.trace.begin(), w.store.trace.end(), "get 0"), 1);
}

TEST(FindFold, PassesOverADamagedSummaryButNotOverADamagedJournal) {
  Folded w;
  w.store.slot(28)[10] ^= 1;  // one copy
  w.expect_all();
  for (std::size_t i = 0; i < 2; ++i) w.store.slot(28)[i * w.store.slot(28).size() / 2 + 20] ^= 1;
  EXPECT_TRUE(w.read().is(Code::journal_unreadable));
}

TEST(FindFold, GallopsWhereNothingIsTold) {
  Folded w(401);
  w.store.listing = std::vector<std::string>();
  w.expect_all();
  EXPECT_LT(w.got(), 30U);
  w.store.listing = std::vector<std::string>{slot_key(9).substr(8)};  // stale
  w.expect_all();
  EXPECT_LT(w.got(), 30U);
  for (const std::uint64_t end : {402U, 403U, 404U, 405U, 407U, 408U, 409U, 512U, 516U, 517U}) {
    grow(w.j, end);
    w.expect_all();
    EXPECT_LT(w.got(), 34U) << end;
  }
}

TEST(FindFold, TakesAHintAsAPositionOnly) {
  Folded w(101);
  w.store.listing = std::vector<std::string>();
  w.store.objects["hint"] = encode_hint({kTestRun, 98, Sha256{}, std::nullopt});
  w.expect_all();
  EXPECT_EQ(w.store.trace[2], "get 96");
  EXPECT_EQ(w.got(), 10U) << "96, its fold, 96 to 102, and whether 104 is there";
  // Of another run, far beyond.
  w.store.listing.reset();
  w.store.objects["hint"] =
      encode_hint({"00000000-0000-4000-8000-000000000009", 1ULL << 60, Sha256{}, std::nullopt});
  w.expect_all();
  EXPECT_LT(w.got(), 10U);
}

TEST(FindFold, DoesNotHideThatRecordsWereLost) {
  Folded w;
  w.store.lose_slot(29);
  w.store.objects["hint"] = encode_hint({kTestRun, 29, Sha256{}, std::nullopt});
  EXPECT_TRUE(w.read().is(Code::journal_unreadable));
  Folded hole;
  hole.store.lose_slot(28);
  EXPECT_TRUE(hole.read().is(Code::journal_unreadable));
}

TEST(Audit, ReadsEveryRecordAndComparesEverySummary) {
  Folded w;
  for (std::uint64_t slot = 4; slot < 20; slot += 4) w.lose_fold(slot);
  auto audited = w.read(Purpose::audit);
  ASSERT_TRUE(audited.ok());
  EXPECT_EQ(w.got(), 32U);
  EXPECT_TRUE(audited.value().wrong_summaries.empty());

  // One that was folded too early, with an object that is what it names.
  Folded wrong(28);
  EncodedFold stale;
  TestJournal shorter;
  shorter.history = History(4);
  for (std::uint64_t n = 0; n < 27; ++n) {
    const DecodedRecord record = decode_record(wrong.store.slot(n)).value();
    ASSERT_TRUE(shorter.history.apply(record.record, record.digest).ok());
  }
  stale = encode_fold(shorter.history).value();
  wrong.store.objects[fold_key({28, stale.summary})] = stale.bytes;
  wrong.j.add(stale.summary).add(Policy{2, 1});
  audited = wrong.read(Purpose::audit);
  ASSERT_TRUE(audited.ok());
  EXPECT_EQ(audited.value().wrong_summaries, std::vector<std::uint64_t>{28});
  // It is of another prefix than its record follows, so no start is misled by it.
  wrong.expect_all();
}

TEST(Audit, RefusesASummaryBeforeAnyRecord) {
  Folded w;
  EXPECT_TRUE(encode_fold(History()).is(Code::bad_argument));
  w.store.slot(0) = encode_record({0, Nonce{1}, {}, 0, w.ref(4).summary}).value().bytes;
  EXPECT_TRUE(w.read(Purpose::audit).is(Code::journal_unreadable));
}

#ifdef UNBROKEN_WITH_MUTANTS
TEST(Mutants, AFoldThatIsNotCheckedMisleadsAStart) {
  const WithMutant mutant("fold_unchecked");
  Folded w;
  std::string& bytes = w.fold(28);
  Json bent = parse_json(bytes.substr(0, bytes.find('\n'))).value();
  bent["policy"]["keep_last"] = 9;
  bytes = seal(bent).value();
  EXPECT_EQ(w.read().value().history.policy().keep_last, 9U);
}
#endif

/// 60,000 slots: 15,000 checkpoints, hundreds of attempts.
class LongJournal : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    made = std::make_unique<Made>();
    grow(made->j, 60'000);
  }
  static void TearDownTestSuite() { made.reset(); }
  struct Made {
    TestStore store;
    TestJournal j{&store};
  };
  static std::unique_ptr<Made> made;
  std::size_t count_reads(const std::optional<std::vector<std::string>>& listing) {
    made->store.trace.clear();
    made->store.listing = listing;
    ReadJournal machine({}, Purpose::look);
    const auto read = made->store.run(machine).take();
    EXPECT_TRUE(read.ok()) << read.error().what();
    EXPECT_EQ(said_by(read.value().history), said_by(made->j.history));
    return static_cast<std::size_t>(std::count_if(made->store.trace.begin(), made->store.trace.end(),
                                                  [](const auto& told) { return told.starts_with("get "); }));
  }
};
std::unique_ptr<LongJournal::Made> LongJournal::made;

TEST_F(LongJournal, IsOpenedWithFewReads) {
  EXPECT_LE(count_reads(std::nullopt), 600U);
}
TEST_F(LongJournal, IsOpenedWithFewReadsWithoutAListing) {
  EXPECT_LE(count_reads(std::vector<std::string>()), 600U);
}

}  // namespace
}  // namespace unbroken
