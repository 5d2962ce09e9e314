#include "journal/void_slot.h"

#include <gmock/gmock.h>

#include "journal/append.h"
#include "journal/read_journal.h"
#include "journal/test_store.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

/// GENESIS, OPEN (attempt 1), COMMIT, and junk in slot 3.
struct Damaged {
  TestStore store;
  TestJournal journal{&store};
  Damaged() {
    journal.genesis().open();
    journal.commit(1);
    store.slot(3) = "junk";
  }
  Result<History> declare_void(std::uint64_t slot, Nonce writer = Nonce{7}) {
    VoidSlot machine(slot, writer, 5);
    return store.run(machine).take();
  }
  Result<JournalRead> read() {
    ReadJournal machine({}, ReadJournal::Purpose::look);
    return store.run(machine).take();
  }
};

TEST(VoidSlot, MakesReadersSkipTheJunkAndTheNextAttemptLeavesANumberOut) {
  Damaged d;
  EXPECT_TRUE(d.read().is(Code::journal_unreadable));
  const auto declared = d.declare_void(3);
  ASSERT_TRUE(declared.ok()) << declared.error().what();
  EXPECT_EQ(d.store.trace.back(), "hint");
  const auto read = d.read();
  ASSERT_TRUE(read.ok()) << read.error().what();
  EXPECT_EQ(read.value().history.next_slot(), 5U);
  EXPECT_EQ(read.value().history.head(), declared.value().head());
  EXPECT_EQ(read.value().history.next_attempt(), 3U) << "the junk may have been the OPEN of attempt 2";
  EXPECT_EQ(d.store.slot(3), "junk");
  EXPECT_EQ(decode_hint(d.store.objects["hint"]).value().slot, 4U);
}

TEST(VoidSlot, MakesWhatItRestsOnDurableAndReadsTheRecordBack) {
  Damaged d;
  ASSERT_TRUE(d.declare_void(3).ok());
  const std::vector<std::string> expected{"list",  "get hint", "get 0", "get 1", "get 2", "get 3",
                                          "get 3", "get 4",    "sync",  "get 2", "get 3", "create 4",
                                          "get 4", "sync",     "get 4", "hint"};
  EXPECT_EQ(d.store.trace, expected);
}

TEST(VoidSlot, IsRefusedWhereItWouldNotMendIt) {
  Damaged d;
  EXPECT_TRUE(d.declare_void(2).is(Code::bad_argument)) << "a whole record";
  EXPECT_TRUE(d.declare_void(4).is(Code::bad_argument)) << "another slot";
  EXPECT_FALSE(d.store.has_slot(4));
  d.store.slot(3).clear();
  EXPECT_TRUE(d.declare_void(3).ok()) << "an empty object is junk too";
  EXPECT_TRUE(d.declare_void(3).is(Code::bad_argument)) << "void already";

  Damaged absent;
  absent.store.lose_slot(3);
  EXPECT_TRUE(absent.declare_void(3).is(Code::bad_argument));
  EXPECT_FALSE(absent.store.has_slot(4));

  Damaged first;
  first.store.objects = {{slot_key(0), "junk"}};
  EXPECT_TRUE(first.declare_void(0).is(Code::journal_unreadable));
}

TEST(VoidSlot, IsRefusedWhereALaterSlotIsOrWas) {
  Damaged followed;
  followed.store.slot(4) = "anything";
  EXPECT_FALSE(followed.declare_void(3).ok());
  EXPECT_EQ(followed.store.slot(4), "anything");

  Damaged beyond;
  beyond.store.slot(5) = "anything";
  EXPECT_TRUE(beyond.declare_void(3).is(Code::bad_argument));
  EXPECT_FALSE(beyond.store.has_slot(4));

  Damaged hinted;
  hinted.store.objects["hint"] = encode_hint({kTestRun, 4, Sha256{}, std::nullopt});
  const auto refused = hinted.declare_void(3);
  ASSERT_TRUE(refused.is(Code::bad_argument));
  EXPECT_THAT(refused.error().what(), HasSubstr("5 slots were there"));
  EXPECT_FALSE(hinted.store.has_slot(4));
}

TEST(VoidSlot, IsRefusedWhereTheSlotReadsOtherwiseEachTime) {
  Damaged d;
  int reads = 0;
  d.store.after = [&](const std::string& told, Event& answer) {
    if (told == "get 3" && ++reads == 3) answer = GotObject{slot_key(3), "other junk"};
  };
  EXPECT_TRUE(d.declare_void(3).is(Code::bad_argument));
  EXPECT_FALSE(d.store.has_slot(4));
}

TEST(VoidSlot, TakesTheRecordOfAnotherThatDidTheSame) {
  Damaged d;
  d.store.before = [&](const std::string& told) -> std::optional<Event> {
    if (told != "create 4") return std::nullopt;
    d.store.before = nullptr;
    EXPECT_TRUE(d.declare_void(3, Nonce{8}).ok());
    return std::nullopt;
  };
  const auto declared = d.declare_void(3, Nonce{7});
  ASSERT_TRUE(declared.ok()) << declared.error().what();
  EXPECT_EQ(decode_record(d.store.slot(4)).value().record.writer, Nonce{8});
  EXPECT_EQ(d.read().value().history.head(), declared.value().head());
}

TEST(VoidSlot, AsksAgainWhereTheRecordWasLost) {
  Damaged d;
  int syncs = 0;
  d.store.after = [&](const std::string& told, Event&) {
    if (told == "sync" && ++syncs == 2) d.store.lose_slot(4);
  };
  ASSERT_TRUE(d.declare_void(3).ok());
  EXPECT_TRUE(d.read().ok());
  d.store.after = [&](const std::string& told, Event&) {
    if (told == "create 6") d.store.lose_slot(6);
  };
  d.store.slot(5) = "junk";
  EXPECT_TRUE(d.declare_void(5).is(Code::unavailable));
}

TEST(VoidSlot, FailsWithTheStorage) {
  Damaged d;
  d.store.before = [](const std::string& told) -> std::optional<Event> {
    if (told == "create 4") return ActionFailed{slot_key(4), Error(Code::no_space, "full")};
    return std::nullopt;
  };
  EXPECT_TRUE(d.declare_void(3).is(Code::no_space));
}

}  // namespace
}  // namespace unbroken
