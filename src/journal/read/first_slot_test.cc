// Appending where the first slot of the journal, or one in its middle, is not there any more.
#include <gtest/gtest.h>

#include <utility>

#include "journal/append.h"
#include "journal/test_store.h"

namespace unbroken {
namespace {

/// A store with GENESIS, OPEN (attempt 1) and one COMMIT: the head is 3.
struct World {
  TestStore store;
  TestJournal others{&store};
  World() {
    others.genesis().open();
    others.commit(1);
  }
  Result<Appended> append() { return append(others.history); }
  Result<Appended> append(History from) {
    return decide(std::move(from), [](const History&) { return Decision(Fact(Policy{7, 1})); });
  }
  Result<Appended> decide(History from, Decide by) {
    Append machine(std::move(from), Nonce{42}, 5, std::move(by));
    return store.run(machine).take();
  }
};

/// What is left of a journal that was removed, or replaced, while it grew: its last slots stand.
TEST(FirstSlot, MissingNothingIsAcknowledged) {
  for (const std::string what : {"the first", "all but the last", "all", "another run's", "junk"}) {
    World w;
    w.store.before = [&](const std::string& told) -> std::optional<Event> {
      if (told != "create 3") return std::nullopt;
      for (const std::uint64_t slot : {0, 1, 2})
        if (slot == 0 || (what.starts_with("all") && (slot < 2 || what == "all"))) w.store.lose_slot(slot);
      if (what == "junk") w.store.slot(0) = "junk";
      if (what != "another run's") return std::nullopt;
      TestStore elsewhere;
      TestJournal(&elsewhere).add(Genesis{"00000000-0000-4000-8000-000000000002", 1, {}});
      w.store.slot(0) = elsewhere.slot(0);
      return std::nullopt;
    };
    EXPECT_TRUE(w.append().is(Code::journal_unreadable)) << what;
    EXPECT_FALSE(w.store.objects.contains("hint")) << what;
    EXPECT_TRUE(w.append().is(Code::journal_unreadable)) << "again: " << what;
  }
}

/// A record of an append that failed is there all the same; what stands down for it may not go by that.
TEST(FirstSlot, MissingNobodyStandsDownForWhatIsLeft) {
  World w;
  w.store.lose_slot(0);
  const Decide stand = [](const History&) { return Decision(Stand{}); };
  EXPECT_TRUE(w.decide(w.others.history, stand).is(Code::journal_unreadable));
  World whole;
  EXPECT_TRUE(whole.decide(whole.others.history, stand).ok());
  EXPECT_TRUE(World().decide({}, stand).ok());
}

TEST(FirstSlot, IsLookedUpAgainWhereItWasNotSeen) {
  World w;
  w.store.before = [&, is_stale = true](const std::string& told) mutable -> std::optional<Event> {
    if (told != "get 0" || !std::exchange(is_stale, false)) return std::nullopt;
    return GotObject{slot_key(0), std::nullopt};
  };
  const auto appended = w.append();
  ASSERT_TRUE(appended.ok()) << appended.error().what();
  EXPECT_EQ(appended.value().record->slot, 3U);
  EXPECT_FALSE(w.store.has_slot(4));
}

TEST(FirstSlot, ThatCannotBeReadIsAFailure) {
  World w;
  w.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told != "get 0") return std::nullopt;
    return ActionFailed{slot_key(0), Error(Code::unavailable, "EIO")};
  };
  EXPECT_TRUE(w.append().is(Code::unavailable));
}

TEST(AHole, IsRefused) {
  World w;
  const History stood = w.others.history;
  w.others.open().open();
  w.store.lose_slot(3);
  EXPECT_TRUE(w.append(stood).is(Code::journal_unreadable));
  EXPECT_EQ(w.store.trace, (std::vector<std::string>{"get 3", "get 4", "get 3", "list", "get 3"}));
}

}  // namespace
}  // namespace unbroken
