#include "journal/fold/fold.h"

#include <gtest/gtest.h>

#include <functional>

#include "journal/slots.h"
#include "journal/test_store.h"

namespace unbroken {
namespace {

/// A journal that says something of every kind.
struct Rich {
  TestStore store;
  TestJournal j{&store};
  Rich() {
    j.genesis().open();
    const SaveId a = j.verified(1), b = j.verified(2), c = j.commit(3), d = j.commit(4);
    j.add(Abort{{5, 1, 0}, "it was \"full\""});
    j.add(Policy{2, 1, 10, BestRule{"loss", true}});
    j.open(b);
    j.add(Abort{{9, 2, 0}, ""}).add(Abort{{9, 2, 1}, ""});
    Commit commit;
    commit.save = {10, 2, 0};
    commit.metrics = {{"loss", 0.1}, {"nan", std::nan("")}, {"top", -HUGE_VAL}, {"whole", 3.0}};
    commit.health = std::string(kHealthNonFinite);
    commit.tags = {"z", "a"};
    j.add(commit);
    j.add(Tag{a, "first"}).add(Untag{{10, 2, 0}, "z"});
    j.add(damage(c)).add(Verified{c, "run", "elsewhere"}).add(damage(d));
    j.add(Pin{b, Nonce{7}}).add(Pin{b, Nonce{1}}).add(Pin{b, Nonce{9}}).add(Unpin{b, Nonce{9}});
    j.add(Intent{c});
    j.summary();
    j.add(Deleted{{c}});
    const Sha256 junk = sha256(as_bytes("junk"));
    store.slot(j.history.next_slot()) = "junk";
    j.history.skip_void(j.history.next_slot(), junk);
    j.add(Void{j.history.next_slot() - 1, junk});
    j.summary().summary();
    j.add(Reserved{"LATER", false, Json::object()});
  }
  DecodedRecord record(std::uint64_t n) { return decode_record(store.slot(n)).value(); }
};

Result<History> decoded(const EncodedFold& fold, const History& of) {
  return decode_fold(fold.bytes, {of.next_slot(), fold.summary}, of.head(), of.fold_every());
}

TEST(Fold, OfEveryPrefixGoesOnAsTheRecordsDo) {
  Rich rich;
  const std::uint64_t head = rich.j.history.next_slot();
  History from_records;
  for (std::uint64_t n = 0; n < head; ++n) {
    if (n > 0) {
      const EncodedFold fold = encode_fold(from_records).value();
      auto history = decoded(fold, from_records);
      ASSERT_TRUE(history.ok()) << "slot " << n << ": " << history.error().what();
      EXPECT_EQ(said_by(history.value()), fold.bytes) << "slot " << n;
      for (std::uint64_t rest = n; rest < head; ++rest) {
        if (rich.store.slot(rest) == "junk") {
          history.value().skip_void(rest, sha256(as_bytes("junk")));
          continue;
        }
        const DecodedRecord next = rich.record(rest);
        ASSERT_TRUE(history.value().apply(next.record, next.digest).ok()) << "slot " << n << " + " << rest;
      }
      EXPECT_EQ(said_by(history.value()), said_by(rich.j.history)) << "slot " << n;
    }
    if (rich.store.slot(n) == "junk") {
      from_records.skip_void(n, sha256(as_bytes("junk")));
      ++n;
    }
    const DecodedRecord next = rich.record(n);
    ASSERT_TRUE(from_records.apply(next.record, next.digest).ok());
  }
}

TEST(Fold, KnowsAsMuchAsTheRecords) {
  Rich rich;
  const History& whole = rich.j.history;
  const History read = decoded(encode_fold(whole).value(), whole).value();
  EXPECT_EQ(read.next_slot(), whole.next_slot());
  EXPECT_EQ(read.head(), whole.head());
  EXPECT_EQ(read.genesis()->run, kTestRun);
  EXPECT_EQ(read.policy(), whole.policy());
  EXPECT_EQ(read.next_attempt(), whole.next_attempt());
  EXPECT_EQ(read.newest_attempt()->open.owner.host, whole.newest_attempt()->open.owner.host);
  EXPECT_EQ(read.lineage().size(), whole.lineage().size());
  EXPECT_EQ(read.folds(), whole.folds());
  EXPECT_EQ(read.folds().size(), kFoldsKept);
  EXPECT_TRUE(read.is_aborted({9, 2, 1}));
  EXPECT_EQ(read.find({2, 1, 0})->pins, (std::set<Nonce>{Nonce{1}, Nonce{7}}));
  EXPECT_TRUE(read.find({4, 1, 0})->is_quarantined());
  EXPECT_EQ(read.find({3, 1, 0}), nullptr);
  EXPECT_EQ(read.find({10, 2, 0})->commit.metrics.at("loss"), 0.1);
}

TEST(Fold, IsRefusedWhereAnyByteDiffers) {
  Rich rich;
  EncodedFold fold = encode_fold(rich.j.history).value();
  for (std::size_t i = 0; i < fold.bytes.size(); i += 7) {
    EncodedFold bent = fold;
    bent.bytes[i] ^= 1;
    EXPECT_TRUE(decoded(bent, rich.j.history).is(Code::corrupt)) << "byte " << i;
  }
  fold.bytes.pop_back();
  EXPECT_TRUE(decoded(fold, rich.j.history).is(Code::corrupt));
}

TEST(Fold, IsRefusedInAnotherPlace) {
  Rich rich;
  const History& whole = rich.j.history;
  const EncodedFold fold = encode_fold(whole).value();
  const FoldRef here{whole.next_slot(), fold.summary}, there{whole.next_slot() + 256, fold.summary};
  EXPECT_TRUE(decode_fold(fold.bytes, here, whole.head(), 256).ok());
  EXPECT_TRUE(decode_fold(fold.bytes, there, whole.head(), 256).is(Code::corrupt));
  EXPECT_TRUE(decode_fold(fold.bytes, here, sha256(as_bytes("x")), 256).is(Code::corrupt));
  FoldRef later = here;
  later.summary.form = 2;
  EXPECT_TRUE(decode_fold(fold.bytes, later, whole.head(), 256).is(Code::unsupported));
}

TEST(Fold, RefusesContradictions) {
  Rich rich;
  const std::string bytes = said_by(rich.j.history);
  const Json sample = parse_json(bytes.substr(0, bytes.find('\n'))).value();
  using Bend = std::function<void(Json&)>;
  const std::vector<std::pair<const char*, Bend>> bends = {
      {"another magic", [](Json& f) { f["magic"] = "unbroken-record-1"; }},
      {"no slot", [](Json& f) { f["slot"] = 0; }},
      {"a slot below what it holds", [](Json& f) { f["slot"] = 3; }},
      {"no genesis", [](Json& f) { f.erase("genesis"); }},
      {"a policy that keeps nothing", [](Json& f) { f["policy"]["keep_last"] = 0; }},
      {"attempts backward", [](Json& f) { std::swap(f["attempts"][0], f["attempts"][1]); }},
      {"an attempt twice", [](Json& f) { f["attempts"].push_back(f["attempts"][1]); }},
      {"an attempt that resumes from a later one",
       [](Json& f) { f["attempts"][0]["open"]["resume"] = to_json(SaveId{10, 2, 0}); }},
      {"commits of nobody", [](Json& f) { f["attempts"][0]["commits"] = 0; }},
      {"a last commit of another", [](Json& f) { f["attempts"][0]["last_commit"]["attempt"] = 2; }},
      {"checkpoints backward", [](Json& f) { std::swap(f["checkpoints"][0], f["checkpoints"][1]); }},
      {"a checkpoint twice", [](Json& f) { f["checkpoints"].push_back(f["checkpoints"].back()); }},
      {"a checkpoint of no attempt", [](Json& f) { f["checkpoints"][0]["commit"]["save"]["attempt"] = 7; }},
      {"a checkpoint before its attempt", [](Json& f) { f["checkpoints"][0]["slot"] = 1; }},
      {"a checkpoint behind the next attempt",
       [](Json& f) { f["attempts"][1]["slot"] = f["checkpoints"][0]["slot"]; }},
      {"a checkpoint past the last", [](Json& f) { f["attempts"][0]["last_commit"]["step"] = 1; }},
      {"steps out of order", [](Json& f) { f["checkpoints"][1]["commit"]["save"]["step"] = 1; }},
      {"a quarantine of another", [](Json& f) { f["checkpoints"][2]["quarantine"]["save"]["step"] = 77; }},
      {"pins twice", [](Json& f) { f["checkpoints"][1]["pins"][0] = f["checkpoints"][1]["pins"][1]; }},
      {"a pin that is no nonce", [](Json& f) { f["checkpoints"][1]["pins"] = {"xyz"}; }},
      {"a tag that is none", [](Json& f) { f["checkpoints"][0]["tags"] = {"a b"}; }},
      {"tags out of order", [](Json& f) { f["checkpoints"][0]["tags"] = {"b", "a"}; }},
      {"a commit that was aborted", [](Json& f) { f["aborted"][0] = to_json(SaveId{10, 2, 0}); }},
      {"an abort of another attempt", [](Json& f) { f["aborted"][0]["attempt"] = 1; }},
      {"aborts out of order", [](Json& f) { std::swap(f["aborted"][0], f["aborted"][1]); }},
      {"folds backward", [](Json& f) { std::swap(f["folds"][0], f["folds"][1]); }},
      {"a fold to come", [](Json& f) { f["folds"][1]["slot"] = f["slot"]; }},
      {"too many folds", [](Json& f) { f["folds"].push_back(f["folds"][1]); }},
      {"a time that is none", [](Json& f) { f["attempts"][0]["at"] = 1.5; }},
  };
  EXPECT_TRUE(decode_fold_text(seal(sample).value()).ok());
  for (const auto& [what, bend] : bends) {
    Json bent = sample;
    bend(bent);
    EXPECT_TRUE(decode_fold_text(seal(bent).value()).is(Code::corrupt)) << what;
  }
  Json later = sample;
  later["magic"] = "unbroken-fold-2";
  EXPECT_TRUE(decode_fold_text(seal(later).value()).is(Code::unsupported));
}

TEST(Fold, HasANameOfItsSlotAndItsDigest) {
  TestJournal j;
  j.genesis();
  const EncodedFold fold = encode_fold(j.history).value();
  EXPECT_EQ(fold.key, "fold/00000000000000000001-" + fold.summary.fold.hex().substr(0, 16));
  EXPECT_EQ(slot_of_fold(fold.key.substr(5)), 1U);
  for (const char* name :
       {"", "00000000000000000001", "00000000000000000001-", "00000000000000000001-0123456789ABCDEF",
        "0000000000000000001-0123456789abcdef0", "0000000000000000000x-0123456789abcdef",
        "00000000000000000001-0123456789abcdef.tmp"})
    EXPECT_EQ(slot_of_fold(name), std::nullopt) << name;
}

TEST(Summary, IsReadPastByThoseWhoDoNotKnowIt) {
  TestJournal j;
  j.genesis();
  const EncodedFold fold = encode_fold(j.history).value();
  const EncodedRecord record = encode_record({1, Nonce{1}, j.history.head(), 0, fold.summary}).value();
  EXPECT_NE(record.bytes.find("\"critical\":false"), std::string::npos);
  EXPECT_EQ(std::get<Summary>(decode_record(record.bytes).value().record.fact), fold.summary);
}

TEST(Summary, OfALaterFormSaysNothing) {
  const Json body = {{"form", 2}, {"something", "else"}};
  TestJournal j;
  j.genesis();
  EXPECT_TRUE(encode_record({1, Nonce{1}, j.history.head(), 0, Reserved{"SUMMARY", false, body}})
                  .is(Code::bad_argument))
      << "a type of this version is written as such";
  const Json record = {{"magic", "unbroken-record-1"},
                       {"type", "SUMMARY"},
                       {"critical", false},
                       {"slot", 1},
                       {"writer", Nonce{1}.hex()},
                       {"previous", j.history.head().hex()},
                       {"at", 0},
                       {"body", body}};
  const auto decoded_record = decode_record(seal_twice(record).value());
  ASSERT_TRUE(decoded_record.ok());
  EXPECT_EQ(std::get<Summary>(decoded_record.value().record.fact).form, 2U);
}

}  // namespace
}  // namespace unbroken
