#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "journal/append.h"
#include "journal/test_store.h"

namespace unbroken {
namespace {

using Trace = std::vector<std::string>;

constexpr Nonce kMe{42};

Decide policy() {
  return [](const History&) -> Result<Decision> { return Decision(Fact(Policy{7, 1})); };
}

/// A store with GENESIS, OPEN and one COMMIT, where a SUMMARY is due in each third slot: the head is 3.
struct Due {
  TestStore store;
  TestJournal others{&store};
  Due() {
    others.history = History(3);
    others.genesis().open();
    others.commit(1);
  }
  Result<Appended> append(Decide decide) {
    Append machine(others.history, kMe, 5, std::move(decide));
    return store.run(machine).take();
  }
  bool is_mine(std::uint64_t n) {
    return store.has_slot(n) && decode_record(store.slot(n)).value().record.writer == kMe;
  }
  std::string key() { return encode_fold(others.history).value().key; }
  std::string type(std::uint64_t n) {
    return store.has_slot(n) ? std::string(type_of(decode_record(store.slot(n)).value().record.fact))
                             : "none";
  }
};

TEST(DueSummary, StandsBeforeTheRecordAndItsFoldBeforeBoth) {
  Due w;
  const std::string key = w.key();
  const auto appended = w.append(policy());
  ASSERT_TRUE(appended.ok());
  EXPECT_EQ(w.store.trace, (Trace{"get 3",         "get 4", "sync",       "get 2",           //
                                  "create " + key, "sync",  "get " + key,                    //
                                  "create 3",      "sync",  "get 3",      "get 0", "hint",   //
                                  "get 3",         "get 4", "get 5",      "sync",  "get 3",  //
                                  "create 4",      "sync",  "get 4",      "get 0", "hint"}));
  EXPECT_EQ(w.type(3), "SUMMARY");
  EXPECT_EQ(appended.value().record->slot, 4U);
  EXPECT_EQ(appended.value().history.folds().size(), 1U);
  const FoldRef ref = appended.value().history.folds().front();
  EXPECT_EQ(fold_key(ref), key);
  EXPECT_TRUE(check_fold(w.store.objects[key], ref.summary).ok());
}

TEST(DueSummary, IsNobodysWhoStandsDown) {
  Due w;
  const Decide stand = [](const History&) -> Result<Decision> { return Decision(Stand{}); };
  ASSERT_TRUE(w.append(stand).ok());
  const Decide fenced = [](const History&) -> Result<Decision> { return Error(Code::fenced, "behind"); };
  EXPECT_TRUE(w.append(fenced).is(Code::fenced));
  EXPECT_FALSE(w.store.has_slot(3));
  EXPECT_FALSE(w.store.objects.contains(w.key()));
}

TEST(DueSummary, IsLeftOutWhereItsFoldCannotBeStored) {
  for (const Code code : {Code::unavailable, Code::no_space, Code::late}) {
    Due w;
    const std::string key = w.key();
    w.store.before = [&](const std::string& told) -> std::optional<Event> {
      if (told != "create " + key) return std::nullopt;
      return ActionFailed{key, Error(code, "as told")};
    };
    ASSERT_TRUE(w.append(policy()).ok());
    EXPECT_EQ(w.type(3), "POLICY");
    EXPECT_EQ(w.type(4), "none");
  }
}

TEST(DueSummary, IsLeftOutWhereItsFoldDoesNotStand) {
  using Meddle = std::function<std::optional<Event>(Due&, const std::string& told, const std::string& key)>;
  const std::vector<std::pair<const char*, Meddle>> meddles = {
      {"something else stands there",
       [](Due& w, const std::string& told, const std::string& key) -> std::optional<Event> {
         if (told == "create " + key) w.store.objects[key] = "junk";
         return std::nullopt;
       }},
      {"its name was lost",
       [](Due& w, const std::string& told, const std::string& key) -> std::optional<Event> {
         if (told == "get " + key) w.store.objects.erase(key);
         return std::nullopt;
       }},
      {"it could not be synced",
       [syncs = 0](Due&, const std::string& told, const std::string&) mutable -> std::optional<Event> {
         if (told != "sync" || ++syncs != 2) return std::nullopt;
         return ActionFailed{"fold/", Error(Code::unavailable, "EIO")};
       }},
  };
  for (const auto& [what, meddle] : meddles) {
    Due w;
    const std::string key = w.key();
    w.store.before = [&, meddle = meddle](const std::string& told) mutable { return meddle(w, told, key); };
    ASSERT_TRUE(w.append(policy()).ok()) << what;
    EXPECT_EQ(w.type(3), "POLICY") << what;
  }
}

TEST(DueSummary, IsGivenUpWhereAnotherRecordIsFirst) {
  Due w;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "create 3") w.others.add(Policy{9, 9});
    return std::nullopt;
  };
  ASSERT_TRUE(w.append(policy()).ok());
  EXPECT_EQ(w.type(3), "POLICY");
  EXPECT_TRUE(w.is_mine(4));
}

TEST(DueSummary, OfRacingWritersNamesOneFold) {
  Due w;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told == "create 3") w.others.summary();
    return std::nullopt;
  };
  ASSERT_TRUE(w.append(policy()).ok());
  EXPECT_EQ(w.type(3), "SUMMARY");
  EXPECT_FALSE(w.is_mine(3));
  EXPECT_TRUE(w.is_mine(4));
  const auto is_fold = [](const auto& object) { return object.first.starts_with("fold/"); };
  EXPECT_EQ(std::count_if(w.store.objects.begin(), w.store.objects.end(), is_fold), 1);
}

TEST(DueSummary, IsNoRecordThatWasAskedFor) {
  Due w;
  Append machine(w.others.history, kMe, 5, [](const History& prefix) -> Result<Decision> {
    if (prefix.next_slot() > 3) return Error(Code::fenced, "behind");
    return Decision(Fact(Policy{7, 1}));
  });
  EXPECT_TRUE(w.store.run(machine).take().is(Code::fenced));
  EXPECT_EQ(w.type(3), "SUMMARY");
  EXPECT_FALSE(machine.may_stand());
}

}  // namespace
}  // namespace unbroken
