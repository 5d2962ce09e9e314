#include <gtest/gtest.h>

#include "journal/append.h"
#include "journal/test_store.h"

namespace unbroken {
namespace {

Decide policy() {
  return [](const History&) -> Result<Decision> { return Decision(Fact(Policy{7, 1})); };
}

TEST(AppendInTwoParts, CreatesNothingBeforeItIsToldToGoOn) {
  TestStore store;
  TestJournal others(&store);
  others.genesis().open();
  others.commit(1);
  Append machine(others.history, Nonce{42}, 5, policy(), Append::Parts::two);
  store.follow(machine, machine.start());
  EXPECT_EQ(store.trace, (std::vector<std::string>{"get 3", "get 4", "sync", "get 2"}));
  EXPECT_FALSE(machine.is_over());
  EXPECT_FALSE(machine.may_stand());
  store.follow(machine, machine.go_on());
  EXPECT_EQ(store.trace, (std::vector<std::string>{"get 3", "get 4", "sync", "get 2", "create 3", "sync",
                                                   "get 3", "get 0"}));
  ASSERT_TRUE(machine.is_over()) << "before the hint, which is the caller's";
  const auto appended = machine.take();
  EXPECT_EQ(decode_hint(appended.value().hint).value().record, appended.value().digest);
}

TEST(AppendInTwoParts, DecidesAgainOnARecordThatCameInBetween) {
  TestStore store;
  TestJournal others(&store);
  others.genesis().open();
  others.commit(1);
  Append machine(others.history, Nonce{42}, 5, policy(), Append::Parts::two);
  store.follow(machine, machine.start());
  others.commit(2);
  store.follow(machine, machine.go_on());
  const auto appended = machine.take();
  EXPECT_EQ(appended.value().record->slot, 4U);
  EXPECT_NE(appended.value().history.find(SaveId{2, 1, 0}), nullptr);
}

}  // namespace
}  // namespace unbroken
