#include <gtest/gtest.h>

#include <algorithm>

#include "commit/collect.h"
#include "journal/fold/fold.h"
#include "journal/test_store.h"

namespace unbroken {
namespace {

using Trace = std::vector<std::string>;

/// Five SUMMARYs, whose folds are all there still.
struct World {
  TestStore store;
  TestJournal j{&store};
  std::vector<std::string> keys;
  World() {
    j.history = History(3);
    j.genesis().open();
    while (keys.size() < 5) {
      if (j.history.is_summary_due()) {
        keys.push_back(encode_fold(j.history).value().key);
        j.summary();
      } else {
        j.add(Policy{1 + static_cast<std::uint32_t>(keys.size()), 1});
      }
    }
  }
  std::string put(std::uint64_t slot) {
    const std::string key = fold_key({slot, {.fold = sha256(as_bytes(std::to_string(slot)))}});
    return store.objects[key] = key;
  }
  void collect() {
    Collect machine(j.history, std::nullopt, 0, [n = 100U]() mutable { return Nonce{n++}; });
    ASSERT_TRUE(store.run(machine).take().ok());
  }
};

TEST(CollectFolds, KeepsTheNewestTwo) {
  World w;
  w.collect();
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(w.store.objects.contains(w.keys[i]), i >= 3) << i;
}

TEST(CollectFolds, RemovesWhatNoSummaryNamesAnyMore) {
  World w;
  const std::string other = w.put(15), skipped = w.put(13);
  w.store.objects["fold/notes"] = "mine";
  w.collect();
  EXPECT_FALSE(w.store.objects.contains(other)) << "slot 15 names another";
  EXPECT_FALSE(w.store.objects.contains(skipped)) << "slot 13 is no SUMMARY";
  EXPECT_TRUE(w.store.objects.contains("fold/notes"));
}

/// A writer has made a fold for the slot to come, and not yet its SUMMARY. Is it left alone?
bool pending_fold_stays() {
  World w;
  const std::string pending = w.put(w.j.history.next_slot() + 2);
  w.collect();
  return w.store.objects.contains(pending);
}

TEST(CollectFolds, LeavesWhatMayStillBeNamed) {
  EXPECT_TRUE(pending_fold_stays());
}

TEST(CollectFolds, GoesByWhatIsDurable) {
  World w;
  w.collect();
  const Trace& trace = w.store.trace;
  const auto is_removal = [](const std::string& told) { return told.starts_with("remove"); };
  const auto first = std::find_if(trace.begin(), trace.end(), is_removal);
  ASSERT_NE(first, trace.end());
  EXPECT_NE(std::find(trace.begin(), first, "sync"), first);
}

TEST(CollectFolds, AsksForNothingWhereThereAreNone) {
  TestStore store;
  TestJournal j{&store};
  j.genesis().open();
  Collect machine(j.history, std::nullopt, 0, [] { return Nonce{1}; });
  ASSERT_TRUE(store.run(machine).take().ok());
  EXPECT_EQ(std::count(store.trace.begin(), store.trace.end(), "list"), 1) << "data/ alone";
}

TEST(CollectFolds, AreInNobodysWay) {
  World w;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (!told.starts_with("remove")) return std::nullopt;
    return ActionFailed{told, Error(Code::unavailable, "EIO")};
  };
  w.collect();
}

#ifdef UNBROKEN_WITH_MUTANTS
TEST(Mutants, PendingFoldsRemovedLeavesASummaryOfNothing) {
  const WithMutant mutant("pending_folds_removed");
  EXPECT_FALSE(pending_fold_stays());
}
#endif

}  // namespace
}  // namespace unbroken
