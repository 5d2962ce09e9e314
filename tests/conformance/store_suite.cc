#include "conformance/store_suite.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <map>
#include <stop_token>

namespace unbroken {

using testing::ElementsAre;
using testing::IsEmpty;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DurableStoreSuite);

#define EXPECT_OK(expression)                                                            \
  do {                                                                                   \
    if (const auto& unbroken_e = (expression); !unbroken_e.ok())                         \
      ADD_FAILURE() << #expression << ": " << name_of(unbroken_e.error().code()) << ": " \
                    << unbroken_e.error().what();                                        \
  } while (0)

namespace {

std::string pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + (i * 31 + i / 251) % 26);
  return text;
}

/// Each method of a store that takes a deadline, by name.
std::map<std::string, Code> codes_of_all(Store& store, const std::string& key, const Deadline& by) {
  std::map<std::string, Code> codes;
  const auto note = [&](const std::string& name, const auto& result) {
    if (!result.ok()) codes[name] = result.error().code();
  };
  note("create", store.create(key, as_bytes("x"), by));
  note("open_writer", store.open_writer(key, 1, by));
  note("get", store.get(key, 10, by));
  note("open_reader", store.open_reader(key, by));
  note("list", store.list(key + "/", by));
  note("remove", store.remove(key, by));
  note("remove_folder", store.remove_folder(key + "/", by));
  note("sync", store.sync(key + "/", by));
  note("advise", store.advise(key, as_bytes("x"), by));
  note("append", store.append(key, as_bytes("x"), by));
  return codes;
}

std::map<std::string, Code> all_are(Code code) {
  std::map<std::string, Code> codes;
  for (const char* name : {"create", "open_writer", "get", "open_reader", "list", "remove", "remove_folder",
                           "sync", "advise", "append"})
    codes[name] = code;
  return codes;
}

}  // namespace

Result<> StoreSuite::write(const std::string& key, const std::string& text, std::size_t piece_bytes) {
  UNBROKEN_TRY(const auto writer, store().open_writer(key, text.size(), soon()));
  struct Answers {
    std::atomic<std::size_t> count = 0;
    std::atomic<bool> is_ok = true;
  };
  auto answers = std::make_shared<Answers>();
  std::size_t pieces = 0;
  for (std::size_t end = text.size(); end > 0; ++pieces) {
    const std::size_t begin = (end - 1) / piece_bytes * piece_bytes;
    writer->write(begin, BufferRef::of(text.substr(begin, end - begin)), [answers](Result<> result) {
      ++answers->count;
      if (!result.ok()) answers->is_ok = false;
    });
    end = begin;
  }
  auto finished = writer->finish(soon());
  EXPECT_EQ(answers->count, pieces) << "each write is answered exactly once, before finish() returns";
  EXPECT_EQ(answers->is_ok, finished.ok());
  return finished;
}

TEST_P(StoreSuite, CreateMakesAWholeObject) {
  world().run([&] {
    for (const std::size_t bytes : {0UL, 1UL, 4096UL, 3UL << 20}) {
      const std::string key = "journal/object-" + std::to_string(bytes), text = pattern(bytes);
      const auto how = create(key, text);
      ASSERT_TRUE(how.ok()) << how.error().what();
      EXPECT_EQ(how.value(), Created::created);
      const auto found = get(key);
      ASSERT_TRUE(found.ok()) << found.error().what();
      EXPECT_TRUE(found.value() == text) << bytes;
    }
  });
}

TEST_P(StoreSuite, CreateNeverReplaces) {
  world().run([&] {
    ASSERT_EQ(create("journal/0", "first").value(), Created::created);
    EXPECT_EQ(create("journal/0", "first").value(), Created::exists);
    EXPECT_EQ(create("journal/0", "second, longer").value(), Created::exists);
    EXPECT_EQ(other().create("journal/0", as_bytes("third"), soon()).value(), Created::exists);
    EXPECT_EQ(get("journal/0").value(), "first");
  });
}

TEST_P(StoreSuite, RacingCreatesHaveExactlyOneWinner) {
  world().run([&] {
    for (int round = 0; round < 20; ++round) {
      const std::string key = "journal/" + std::to_string(round);
      std::array<std::atomic<bool>, 6> has_won{};
      std::vector<std::function<void()>> bodies;
      for (std::size_t i = 0; i < has_won.size(); ++i) {
        bodies.emplace_back([&, i] {
          Store& mine = i % 2 == 0 ? store() : other();
          const auto how = mine.create(key, as_bytes("writer " + std::to_string(i)), soon());
          ASSERT_TRUE(how.ok()) << how.error().what();
          ASSERT_NE(how.value(), Created::unknown);
          has_won[i] = how.value() == Created::created;
        });
      }
      world().race(std::move(bodies));
      std::vector<std::string> winners;
      for (std::size_t i = 0; i < has_won.size(); ++i)
        if (has_won[i]) winners.push_back("writer " + std::to_string(i));
      ASSERT_EQ(winners.size(), 1U) << "round " << round;
      EXPECT_EQ(get(key).value(), winners.front());
    }
  });
}

TEST_P(StoreSuite, NobodySeesPartOfACreate) {
  world().run([&] {
    const std::string text = pattern(1 << 20);
    std::atomic<bool> is_over = false;
    std::atomic<int> whole = 0;
    world().race({[&] {
                    for (int i = 0; i < 10; ++i) EXPECT_OK(create("data/" + std::to_string(i), text));
                    is_over = true;
                  },
                  [&] {
                    for (int i = 0; i < 10;) {
                      const bool is_last = is_over;
                      const auto found = other().get("data/" + std::to_string(i), text.size(), soon());
                      if (found.ok()) {
                        ASSERT_TRUE(found.value() == text);
                        ++whole;
                        ++i;
                      } else {
                        ASSERT_TRUE(found.is(Code::not_found)) << found.error().what();
                        ASSERT_FALSE(is_last) << "a completed create is not seen";
                      }
                    }
                  }});
    EXPECT_EQ(whole, 10);
  });
}

TEST_P(StoreSuite, AnotherClientSeesWhatWasMade) {
  world().run([&] {
    EXPECT_TRUE(other().get("journal/7", 10, soon()).is(Code::not_found));
    EXPECT_OK(create("journal/7", "seven"));
    EXPECT_EQ(other().get("journal/7", 10, soon()).value(), "seven");
    EXPECT_OK(write("data/a/shard", "bytes", 2));
    EXPECT_EQ(other().get("data/a/shard", 10, soon()).value(), "bytes");
  });
}

TEST_P(StoreSuite, WriterTakesPiecesInAnyOrder) {
  world().run([&] {
    const std::string text = pattern(1'000'003);
    EXPECT_OK(write("data/step/shard-1", text, 65'536));
    EXPECT_TRUE(get("data/step/shard-1").value() == text);
    EXPECT_OK(write("data/step/shard-2", "", 1));
    EXPECT_EQ(get("data/step/shard-2").value(), "");
  });
}

TEST_P(StoreSuite, WriterThatIsDroppedLeavesNothing) {
  world().run([&] {
    {
      const auto writer = store().open_writer("data/step/shard", 4, soon());
      ASSERT_TRUE(writer.ok());
      writer.value()->write(0, BufferRef::of("four"), [](Result<> result) { EXPECT_OK(result); });
    }
    world().settle();
    EXPECT_TRUE(get("data/step/shard").is(Code::not_found));
    EXPECT_THAT(list("data/step/").value(), IsEmpty());
    EXPECT_OK(write("data/step/shard", "again", 5));
  });
}

TEST_P(StoreSuite, WriterNeverReplaces) {
  world().run([&] {
    EXPECT_OK(write("data/shard", "first", 5));
    const auto writer = other().open_writer("data/shard", 6, soon());
    bool is_refused = !writer.ok();
    if (writer.ok()) {
      writer.value()->write(0, BufferRef::of("second"), [](Result<>) {});
      is_refused = !writer.value()->finish(soon()).ok();
    }
    EXPECT_TRUE(is_refused);
    EXPECT_EQ(get("data/shard").value(), "first");
  });
}

TEST_P(StoreSuite, WriterHoldsToItsSize) {
  world().run([&] {
    {
      const auto writer = store().open_writer("data/long", 4, soon());
      ASSERT_TRUE(writer.ok());
      Result<> answer = Done{};
      writer.value()->write(2, BufferRef::of("four"), [&](Result<> result) { answer = std::move(result); });
      EXPECT_FALSE(answer.ok());
      EXPECT_FALSE(writer.value()->finish(soon()).ok());
    }
    EXPECT_TRUE(get("data/long").is(Code::not_found));
    {
      const auto writer = store().open_writer("data/short", 4, soon());
      ASSERT_TRUE(writer.ok());
      writer.value()->write(0, BufferRef::of("fou"), [](Result<> result) { EXPECT_OK(result); });
      EXPECT_FALSE(writer.value()->finish(soon()).ok());
      EXPECT_FALSE(writer.value()->finish(soon()).ok()) << "an object is finished once";
    }
    EXPECT_TRUE(get("data/short").is(Code::not_found));
  });
}

TEST_P(StoreSuite, WriterFinishKeepsItsDeadline) {
  world().run([&] {
    const auto writer = store().open_writer("data/shard", 4, soon());
    ASSERT_TRUE(writer.ok());
    writer.value()->write(0, BufferRef::of("four"), [](Result<> result) { EXPECT_OK(result); });
    world().settle();
    EXPECT_TRUE(writer.value()->finish({world().now(), {}}).is(Code::late));
  });
}

TEST_P(StoreSuite, GetIsBounded) {
  world().run([&] {
    EXPECT_OK(create("data/object", "12345"));
    EXPECT_TRUE(store().get("data/object", 4, soon()).is(Code::corrupt));
    EXPECT_EQ(store().get("data/object", 5, soon()).value(), "12345");
    EXPECT_TRUE(get("data/none").is(Code::not_found));
    EXPECT_TRUE(get("none/at-all").is(Code::not_found));
  });
}

TEST_P(StoreSuite, ReaderGivesRangesAndRefusesPastTheEnd) {
  world().run([&] {
    const std::string text = pattern(100'000);
    EXPECT_OK(write("data/shard", text, 4096));
    EXPECT_TRUE(store().open_reader("data/none", soon()).is(Code::not_found));
    const auto reader = store().open_reader("data/shard", soon());
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(reader.value()->bytes(), text.size());
    const auto read = [&](std::uint64_t offset, std::size_t bytes) -> Result<std::string> {
      std::string into(bytes, '?');
      UNBROKEN_DO(reader.value()->read(offset, std::as_writable_bytes(std::span(into))));
      return into;
    };
    EXPECT_EQ(read(0, 10).value(), text.substr(0, 10));
    EXPECT_EQ(read(99'990, 10).value(), text.substr(99'990));
    EXPECT_EQ(read(0, 100'000).value(), text);
    EXPECT_EQ(read(100'000, 0).value(), "");
    EXPECT_TRUE(read(99'991, 10).is(Code::corrupt));
    EXPECT_TRUE(read(100'000, 1).is(Code::corrupt));
    EXPECT_TRUE(read(1'000'000, 1).is(Code::corrupt));
  });
}

TEST_P(StoreSuite, ReaderServesSeveralThreads) {
  world().run([&] {
    const std::string text = pattern(1 << 20);
    EXPECT_OK(write("data/shard", text, 1 << 18));
    const auto reader = store().open_reader("data/shard", soon());
    ASSERT_TRUE(reader.ok());
    std::vector<std::function<void()>> bodies;
    for (std::size_t i = 0; i < 4; ++i) {
      bodies.emplace_back([&, i] {
        for (std::size_t offset = i * 4096; offset + 4096 <= text.size(); offset += 4 * 4096) {
          std::string into(4096, '?');
          EXPECT_OK(reader.value()->read(offset, std::as_writable_bytes(std::span(into))));
          ASSERT_TRUE(into == text.substr(offset, 4096));
        }
      });
    }
    world().race(std::move(bodies));
  });
}

TEST_P(StoreSuite, ListNamesWhatIsDirectlyBelow) {
  world().run([&] {
    EXPECT_THAT(list("data/").value(), IsEmpty());
    EXPECT_OK(create("data/b", ""));
    EXPECT_OK(create("data/a/deep/er", ""));
    EXPECT_OK(write("data/c", "x", 1));
    EXPECT_OK(store().append("data/d", as_bytes("x"), soon()));
    EXPECT_OK(store().advise("data/e", as_bytes("x"), soon()));
    EXPECT_OK(create("hint", ""));
    EXPECT_THAT(list("data/").value(), ElementsAre("a", "b", "c", "d", "e"));
    EXPECT_THAT(list("data").value(), ElementsAre("a", "b", "c", "d", "e"));
    EXPECT_THAT(list("data/a/deep/").value(), ElementsAre("er"));
    EXPECT_THAT(list("").value(), ElementsAre("data", "hint"));
    EXPECT_THAT(list("nothing/").value(), IsEmpty());
  });
}

TEST_P(StoreSuite, RemoveToleratesAbsence) {
  world().run([&] {
    EXPECT_OK(store().remove("data/none", soon()));
    EXPECT_OK(create("data/object", "old"));
    EXPECT_OK(store().remove("data/object", soon()));
    EXPECT_OK(other().remove("data/object", soon()));
    EXPECT_TRUE(get("data/object").is(Code::not_found));
    EXPECT_THAT(list("data/").value(), IsEmpty());
    EXPECT_EQ(create("data/object", "new").value(), Created::created);
    EXPECT_EQ(get("data/object").value(), "new");
  });
}

TEST_P(StoreSuite, RemoveFolderTakesOnlyEmptyOnes) {
  world().run([&] {
    EXPECT_OK(store().remove_folder("data/none/", soon()));
    EXPECT_OK(create("data/step/object", "kept"));
    static_cast<void>(store().remove_folder("data/step/", soon()).ok());
    EXPECT_EQ(get("data/step/object").value(), "kept");
    EXPECT_OK(store().remove("data/step/object", soon()));
    EXPECT_OK(store().remove_folder("data/step/", soon()));
    EXPECT_OK(other().remove_folder("data/step/", soon()));
    EXPECT_THAT(list("data/").value(), IsEmpty());
    EXPECT_EQ(create("data/step/object", "again").value(), Created::created);
  });
}

TEST_P(StoreSuite, SyncTakesAnyPrefix) {
  world().run([&] {
    EXPECT_OK(store().sync("journal/", soon()));
    EXPECT_OK(store().sync("", soon()));
    EXPECT_OK(create("data/step/object", ""));
    for (const char* prefix : {"data/step/", "data/step", "data/", "", "data/none/"})
      EXPECT_OK(store().sync(prefix, soon()));
  });
}

TEST_P(StoreSuite, AdviseReplaces) {
  world().run([&] {
    EXPECT_OK(store().advise("hint", as_bytes("one, long"), soon()));
    EXPECT_EQ(get("hint").value(), "one, long");
    EXPECT_OK(store().advise("hint", as_bytes("two"), soon()));
    EXPECT_EQ(get("hint").value(), "two");
    EXPECT_OK(store().advise("pins/deep/one", as_bytes(""), soon()));
    EXPECT_EQ(get("pins/deep/one").value(), "");
  });
}

TEST_P(StoreSuite, AppendAddsToTheEnd) {
  world().run([&] {
    EXPECT_OK(store().append("metrics/a0001.jsonl", as_bytes("one\n"), soon()));
    EXPECT_OK(other().append("metrics/a0001.jsonl", as_bytes("two\n"), soon()));
    EXPECT_OK(store().append("metrics/a0001.jsonl", as_bytes(""), soon()));
    EXPECT_EQ(get("metrics/a0001.jsonl").value(), "one\ntwo\n");
  });
}

TEST_P(StoreSuite, SaysWhatItIs) {
  world().run([&] {
    EXPECT_TRUE(store().capabilities().exclusive_create);
    const StoreIdentity mine = store().identity(), theirs = other().identity();
    EXPECT_EQ(mine.device, theirs.device);
    EXPECT_EQ(mine.inode, theirs.inode);
    EXPECT_NE(mine.inode, 0U);
    EXPECT_GT(store().free_bytes(soon()).value(), 0U);
  });
}

TEST_P(StoreSuite, PassedDeadlineIsLate) {
  world().run([&] {
    const Deadline past{world().now(), {}};
    EXPECT_EQ(codes_of_all(store(), "data/object", past), all_are(Code::late));
    EXPECT_TRUE(store().free_bytes(past).is(Code::late));
    EXPECT_THAT(list("").value(), IsEmpty());
  });
}

TEST_P(StoreSuite, RaisedTokenIsStopped) {
  world().run([&] {
    std::stop_source stop;
    stop.request_stop();
    EXPECT_EQ(codes_of_all(store(), "data/object", {soon().at, stop.get_token()}), all_are(Code::stopped));
    EXPECT_THAT(list("").value(), IsEmpty());
  });
}

TEST_P(StoreSuite, KeysOutsideTheAlphabetAreRefused) {
  world().run([&] {
    for (const std::string& key :
         {std::string("../escape"), std::string("/etc/passwd"), std::string("data//x"),
          std::string("data/./x"), std::string("data/.."), std::string("da ta"), std::string("d\0x", 3),
          std::string("caf\xc3\xa9"), std::string(201, 'x')})
      EXPECT_EQ(codes_of_all(store(), key, soon()), all_are(Code::bad_argument)) << key;
    EXPECT_TRUE(get("").is(Code::bad_argument));
    EXPECT_THAT(list("").value(), IsEmpty());
  });
}

TEST_P(StoreSuite, LongestKeysWork) {
  world().run([&] {
    const std::string leaf(200, 'x'), deep = "data/" + std::string(97, 'y') + "/" + std::string(97, 'z');
    for (const std::string& key : {leaf, deep}) {
      EXPECT_EQ(create(key, "x").value(), Created::created);
      EXPECT_OK(store().advise(key, as_bytes("y"), soon()));
      EXPECT_EQ(get(key).value(), "y");
    }
  });
}

TEST_P(DurableStoreSuite, WhatWasSyncedOutlivesThePower) {
  world().run([&] {
    ASSERT_EQ(create("journal/0", "record").value(), Created::created);
    EXPECT_OK(store().sync("journal/", soon()));
    EXPECT_OK(write("data/step/shard", pattern(100'000), 4096));
    EXPECT_OK(store().sync("data/step/", soon()));
  });
  world().lose_power();
  world().run([&] {
    EXPECT_EQ(get("journal/0").value(), "record");
    EXPECT_EQ(get("data/step/shard").value(), pattern(100'000));
  });
}

TEST_P(DurableStoreSuite, WhatWasNotSyncedIsWholeOrGone) {
  world().run([&] {
    for (int i = 0; i < 20; ++i) EXPECT_OK(create("journal/" + std::to_string(i), pattern(9000)));
  });
  world().lose_power();
  world().run([&] {
    for (int i = 0; i < 20; ++i) {
      const auto found = get("journal/" + std::to_string(i));
      EXPECT_TRUE(found.is(Code::not_found) || found.value() == pattern(9000)) << i;
    }
  });
}

TEST_P(DurableStoreSuite, SyncCoversTheNamesOfOthers) {
  world().run([&] {
    EXPECT_OK(store().sync("journal/", soon()));
    EXPECT_EQ(other().create("journal/0", as_bytes("theirs"), soon()).value(), Created::created);
    EXPECT_OK(store().sync("journal/", soon()));
  });
  world().lose_power();
  world().run([&] { EXPECT_EQ(get("journal/0").value(), "theirs"); });
}

TEST_P(DurableStoreSuite, FolderMadeAnewIsDurableAgain) {
  world().run([&] {
    for (int round = 0; round < 2; ++round) {
      for (const char* folder : {"top", "data/step"}) {
        const std::string key = std::string(folder) + "/object";
        EXPECT_OK(store().remove(key, soon()));
        EXPECT_OK(store().remove_folder(folder, soon()));
        EXPECT_OK(create(key, "round " + std::to_string(round)));
        EXPECT_OK(store().sync(folder, soon()));
      }
    }
  });
  world().lose_power();
  world().run([&] {
    EXPECT_EQ(get("top/object").value(), "round 1");
    EXPECT_EQ(get("data/step/object").value(), "round 1");
  });
}

}  // namespace unbroken
