// The order of system calls is what FileStore is for; and what it does where one of them fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/mutant.h"
#include "conformance/os_store.h"
#include "conformance/spy_fs.h"
#include "filestore/file_store.h"

namespace unbroken {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class FileOrder : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::unique_ptr<OsFs> real_ = OsFs::open(directory_.path()).value();
  SpyFs fs_{*real_};
  OsClock clock_;
  OsRandom random_;
  FileStore store_{fs_, clock_, random_, {.path = directory_.path()}};
  const Deadline by_{clock_.now() + std::chrono::minutes(5), {}};

  Result<Created> create(std::string_view key, std::string_view text = "text") {
    return store_.create(key, as_bytes(text), by_);
  }
  std::string get(std::string_view key) {
    auto found = store_.get(key, 1 << 20, by_);
    return found.ok() ? found.value() : std::string(name_of(found.error().code()));
  }
  /// Everything in a folder, temporaries too.
  std::vector<std::string> files(std::string_view folder) {
    auto names = real_->list(folder).value();
    std::ranges::sort(names);
    return names;
  }
  long count(const std::vector<std::string>& calls, std::string_view call) {
    return std::ranges::count(calls, call);
  }
};

// failure: CanReader/FastNN#13
TEST_F(FileOrder, CreateWritesSyncsLinksThenUnlinks) {
  ASSERT_TRUE(create("top").ok());
  EXPECT_THAT(fs_.take_calls(), ElementsAre("create_excl top.NONCE.tmp", "write", "sync", "close", "link top",
                                            "unlink top.NONCE.tmp"));
  ASSERT_TRUE(create("journal/sub/0").ok());
  EXPECT_THAT(fs_.take_calls(),
              ElementsAre("create_excl journal/sub/0.NONCE.tmp", "make_dir journal/sub", "make_dir journal",
                          "make_dir journal/sub", "create_excl journal/sub/0.NONCE.tmp", "write", "sync",
                          "close", "link journal/sub/0", "unlink journal/sub/0.NONCE.tmp"));
}

// failure: CanReader/FastNN#13
TEST_F(FileOrder, SyncCoversTheFolderAndThoseAboveIt) {
  ASSERT_TRUE(create("data/step/object").ok());
  fs_.take_calls();
  ASSERT_TRUE(store_.sync("data/step/", by_).ok());
  EXPECT_THAT(fs_.take_calls(), ElementsAre("sync_dir data/step", "sync_dir data", "sync_dir"));
  // The name of data is durable now; that of data/step may have been removed and made by somebody.
  ASSERT_TRUE(store_.sync("data/step/", by_).ok());
  EXPECT_THAT(fs_.take_calls(), ElementsAre("sync_dir data/step", "sync_dir data"));
  ASSERT_TRUE(store_.sync("data/", by_).ok());
  EXPECT_THAT(fs_.take_calls(), ElementsAre("sync_dir data"));
  ASSERT_TRUE(store_.sync("", by_).ok());
  EXPECT_THAT(fs_.take_calls(), ElementsAre("sync_dir"));
}

TEST_F(FileOrder, SyncOfAFolderMadeAnewSyncsItsNameAnew) {
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(create("fold/object").ok());
    fs_.take_calls();
    ASSERT_TRUE(store_.sync("fold/", by_).ok());
    EXPECT_THAT(fs_.take_calls(), ElementsAre("sync_dir fold", "sync_dir")) << round;
    ASSERT_TRUE(store_.remove("fold/object", by_).ok());
    ASSERT_TRUE(store_.remove_folder("fold/", by_).ok());
  }
}

TEST_F(FileOrder, SyncThatFailsIsNotTakenForDone) {
  ASSERT_TRUE(create("journal/0").ok());
  fs_.fail("sync_dir", Code::unavailable);
  EXPECT_TRUE(store_.sync("journal/", by_).is(Code::unavailable));
  fs_.heal();
  fs_.take_calls();
  ASSERT_TRUE(store_.sync("journal/", by_).ok());
  EXPECT_THAT(fs_.take_calls(), ElementsAre("sync_dir journal", "sync_dir"));
}

TEST_F(FileOrder, WriterSyncsOnceThenCloses) {
  {
    auto writer = store_.open_writer("shard", 4, by_).value();
    writer->write(0, BufferRef::of("four"), [](Result<> result) { EXPECT_TRUE(result.ok()); });
    ASSERT_TRUE(writer->finish(by_).ok());
  }
  EXPECT_THAT(fs_.take_calls(), ElementsAre("create_excl shard", "write", "sync", "close"));
  EXPECT_EQ(get("shard"), "four");
}

TEST_F(FileOrder, RoomForALargeObjectIsTakenBeforeItIsWritten) {
  const std::string text(3 << 20, 'x');
  {
    auto writer = store_.open_writer("shard", text.size(), by_).value();
    writer->write(0, BufferRef::of(text), [](Result<> result) { EXPECT_TRUE(result.ok()); });
    ASSERT_TRUE(writer->finish(by_).ok());
  }
  EXPECT_THAT(fs_.take_calls(),
              ElementsAre("create_excl shard", "reserve", "bypass_cache shard", "write", "sync", "close"));
  std::string found(text.size(), '?');
  auto reader = store_.open_reader("shard", by_).value();
  ASSERT_TRUE(reader->read(0, std::as_writable_bytes(std::span(found))).ok());
  EXPECT_TRUE(found == text);
  fs_.take_calls();
  fs_.fail("reserve", Code::no_space);
  EXPECT_TRUE(store_.open_writer("another", text.size(), by_).is(Code::no_space));
  EXPECT_THAT(fs_.take_calls(), ElementsAre("create_excl another", "reserve", "close", "unlink another"));
}

TEST_F(FileOrder, AnObjectThatWasNotAllWrittenIsNotFinished) {
  for (const std::uint64_t bytes : {std::uint64_t{10}, std::uint64_t{3} << 20}) {
    auto writer = store_.open_writer("shard", bytes, by_).value();
    writer->write(bytes - 4, BufferRef::of("four"), [](Result<> result) { EXPECT_TRUE(result.ok()); });
    EXPECT_TRUE(writer->finish(by_).is(Code::bug)) << "room that was reserved is not content";
    writer.reset();
    EXPECT_THAT(files(""), IsEmpty());
  }
}

TEST_F(FileOrder, FailedSyncAbandonsTheObject) {
  fs_.fail("sync", Code::unavailable);
  EXPECT_TRUE(create("journal/0").is(Code::unavailable));
  auto writer = store_.open_writer("data/shard", 4, by_).value();
  writer->write(0, BufferRef::of("four"), [](Result<> result) { EXPECT_TRUE(result.ok()); });
  fs_.take_calls();
  EXPECT_TRUE(writer->finish(by_).is(Code::unavailable));
  EXPECT_FALSE(writer->finish(by_).ok());
  writer.reset();
  const auto calls = fs_.take_calls();
  EXPECT_THAT(calls, ElementsAre("sync", "close", "unlink data/shard"));
  EXPECT_THAT(files("journal"), IsEmpty());
  EXPECT_THAT(files("data"), IsEmpty());
}

TEST_F(FileOrder, FailedCloseAbandonsTheObject) {
  fs_.fail("close", Code::unavailable);
  EXPECT_TRUE(create("journal/0").is(Code::unavailable));
  {
    auto writer = store_.open_writer("data/shard", 0, by_).value();
    EXPECT_TRUE(writer->finish(by_).is(Code::unavailable));
  }
  EXPECT_EQ(count(fs_.take_calls(), "close"), 2) << "a descriptor is closed once";
  EXPECT_THAT(files("journal"), IsEmpty());
  EXPECT_THAT(files("data"), IsEmpty());
}

TEST_F(FileOrder, FailedWriteIsToldAndEndsTheObject) {
  auto writer = store_.open_writer("data/shard", 4, by_).value();
  fs_.fail("write", Code::no_space);
  Result<> answer = Done{};
  writer->write(0, BufferRef::of("four"), [&](Result<> result) { answer = std::move(result); });
  EXPECT_TRUE(answer.is(Code::no_space));
  fs_.heal();
  fs_.take_calls();
  EXPECT_TRUE(writer->finish(by_).is(Code::no_space)) << "the reason survives";
  EXPECT_THAT(fs_.take_calls(), ElementsAre("close", "unlink data/shard"));
  fs_.fail("write", Code::no_space);
  EXPECT_TRUE(create("journal/0").is(Code::no_space));
  EXPECT_THAT(files("journal"), IsEmpty());
}

TEST_F(FileOrder, FinishWaitsForWritesInFlight) {
  fs_.is_deferred = true;
  auto writer = store_.open_writer("data/shard", 4, by_).value();
  int answers = 0;
  for (const std::uint64_t offset : {2UL, 0UL})
    writer->write(offset, BufferRef::of("xy"), [&](Result<> result) { answers += result.ok() ? 1 : 0; });
  EXPECT_EQ(answers, 0);
  ASSERT_TRUE(writer->finish(by_).ok());
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(get("data/shard"), "xyxy");
  ASSERT_TRUE(create("journal/0").ok());
  EXPECT_EQ(get("journal/0"), "text");
}

TEST_F(FileOrder, DroppedWriterClosesAfterItsLastWrite) {
  fs_.is_deferred = true;
  auto writer = store_.open_writer("data/shard", 4, by_).value();
  writer->write(0, BufferRef::of("four"), [](Result<> result) { EXPECT_TRUE(result.ok()); });
  fs_.take_calls();
  writer.reset();
  EXPECT_THAT(fs_.take_calls(), IsEmpty()) << "the file is still being written";
  fs_.settle(FileId{});
  EXPECT_THAT(fs_.take_calls(), ElementsAre("close", "unlink data/shard"));
}

// failure: DataBiosphere/toil#4333
TEST_F(FileOrder, LostAnswerOfALinkIsFoundByTheFileItNames) {
  for (const Code code : {Code::unavailable, Code::not_found}) {
    fs_.link_answer = [code](Fs& real, std::string_view from, std::string_view to) -> Result<Created> {
      EXPECT_EQ(real.link(from, to).value(), Created::created);
      return Error(code, "the answer was lost after the deed");
    };
    const std::string key = "journal/" + std::string(name_of(code));
    const auto how = create(key);
    ASSERT_TRUE(how.ok()) << how.error().what();
    EXPECT_EQ(how.value(), Created::created);
    EXPECT_EQ(get(key), "text");
  }
}

TEST_F(FileOrder, RepeatedRequestThatFindsItsOwnLinkHasCreated) {
  fs_.link_answer = [](Fs& real, std::string_view from, std::string_view to) -> Result<Created> {
    EXPECT_EQ(real.link(from, to).value(), Created::created);
    return real.link(from, to);
  };
  EXPECT_EQ(create("journal/0").value(), Created::created);
}

TEST_F(FileOrder, LinkMadeBySomebodyElseWinsNothing) {
  ASSERT_TRUE(create("journal/0", "theirs").ok());
  // As `cp -al` of the run directory does at a bad moment.
  fs_.link_answer = [](Fs& real, std::string_view from, std::string_view to) -> Result<Created> {
    EXPECT_EQ(real.link(from, "backup").value(), Created::created);
    return real.link(from, to);
  };
  EXPECT_EQ(create("journal/0", "mine").value(), Created::exists);
  EXPECT_EQ(get("journal/0"), "theirs");
}

TEST_F(FileOrder, UndecidableLinkIsUnknown) {
  fs_.link_answer = [](Fs&, std::string_view, std::string_view) -> Result<Created> {
    return Created::unknown;
  };
  EXPECT_EQ(create("journal/0").value(), Created::unknown);
  // As after a rename whose answer was lost: the temporary name is gone.
  fs_.link_answer = [](Fs& real, std::string_view from, std::string_view to) -> Result<Created> {
    UNBROKEN_DO(real.rename(from, to));
    return Created::unknown;
  };
  EXPECT_EQ(create("journal/1").value(), Created::unknown);
  EXPECT_EQ(get("journal/1"), "text");
}

TEST_F(FileOrder, ALinkThatMayHaveFailedIsAskedForAgain) {
  int asked = 0;
  fs_.link_answer = [&](Fs& real, std::string_view from, std::string_view to) -> Result<Created> {
    if (++asked < 3) return Error(Code::unavailable, "link: ETIMEDOUT");
    return real.link(from, to);
  };
  EXPECT_EQ(create("journal/0").value(), Created::created);
  // Done, and the answer was lost.
  fs_.link_answer = [](Fs& real, std::string_view from, std::string_view to) -> Result<Created> {
    EXPECT_EQ(real.link(from, to).value(), Created::created);
    return Error(Code::unavailable, "link: EIO");
  };
  EXPECT_EQ(create("journal/1").value(), Created::created);
  asked = 0;
  fs_.link_answer = [&](Fs&, std::string_view, std::string_view) -> Result<Created> {
    ++asked;
    return Error(Code::unavailable, "link: EIO (Input/output error)").from_system(EIO);
  };
  const auto failed = create("journal/2");
  ASSERT_TRUE(failed.is(Code::unavailable));
  EXPECT_EQ(failed.error().what(), "create journal/2: link: EIO (Input/output error)");
  EXPECT_EQ(failed.error().next_command(), "findmnt -T " + directory_.path());
  EXPECT_EQ(asked, 3);
}

TEST_F(FileOrder, ErrorsSayOnceWhatWasDoneWhereAndWhy) {
  ASSERT_TRUE(create("data/folder/inside").ok());
  ASSERT_EQ(::mkfifo((directory_.path() + "/data/pipe").c_str(), 0600), 0);
  const auto text = [](const auto& result) { return result.error().what(); };
  EXPECT_EQ(text(store_.get("data/none", 1, by_)),
            "read data/none: open: ENOENT (No such file or directory)");
  EXPECT_EQ(text(store_.get("data/pipe", 1, by_)), "read data/pipe: a pipe stands there, not a file");
  EXPECT_EQ(text(store_.get("data/folder/inside/x", 1, by_)),
            "read data/folder/inside/x: open: ENOTDIR (Not a directory)");
  EXPECT_EQ(text(store_.remove("data/folder", by_)), "remove data/folder: unlink: EISDIR (Is a directory)");
  fs_.fail("sync_dir", Code::unavailable);
  EXPECT_EQ(text(store_.sync("data/", by_)), "sync data: sync_dir fails here");
  const Deadline past{clock_.now(), {}};
  EXPECT_EQ(text(store_.remove("data/pipe", past)), "remove data/pipe: the deadline has passed");
  EXPECT_EQ(text(store_.list("data/", past)), "list data: the deadline has passed");
}

TEST_F(FileOrder, WhatIsNoFileIsDamageOfThatObjectAlone) {
  const auto is_damage = [&](std::string_view key) { return store_.open_reader(key, by_).is(Code::corrupt); };
  ASSERT_TRUE(create("data/step/object").ok());
  const std::filesystem::path data = directory_.path() + "/data";
  ASSERT_EQ(::mkfifo((data / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("step/object", data / "link");
  std::filesystem::create_directory_symlink("step", data / "linked");
  EXPECT_TRUE(is_damage("data/pipe"));
  EXPECT_TRUE(is_damage("data/link"));
  EXPECT_TRUE(is_damage("data/step"));
  EXPECT_TRUE(is_damage("data/linked/object"));
  EXPECT_TRUE(is_damage("data/pipe/object"));
  EXPECT_TRUE(is_damage("data/step/object/below"));
  EXPECT_TRUE(store_.list("data/pipe/", by_).is(Code::corrupt));
  EXPECT_TRUE(store_.get("data", 1, by_).is(Code::corrupt));
  fs_.fail("open_read", Code::unavailable);
  EXPECT_TRUE(store_.open_reader("data/step/object", by_).is(Code::unavailable)) << "EIO is no damage";
  fs_.heal();
  // Another thing in place of data itself says nothing about any checkpoint.
  std::filesystem::rename(data, directory_.path() + "/elsewhere");
  std::filesystem::create_directory_symlink("elsewhere", data);
  EXPECT_TRUE(store_.open_reader("data/step/object", by_).is(Code::bad_argument));
}

TEST_F(FileOrder, RefusedLinkIsAnErrorAndLeavesNothing) {
  fs_.fail("link", Code::unavailable);
  EXPECT_TRUE(create("journal/0").is(Code::unavailable));
  EXPECT_THAT(files("journal"), IsEmpty());
}

TEST_F(FileOrder, ATemporaryNameThatWasSweptMakesNothingAndMayBeAskedForAgain) {
  fs_.link_answer = [&](Fs& real, std::string_view from, std::string_view to) -> Result<Created> {
    UNBROKEN_DO(real.unlink(from));
    return real.link(from, to);
  };
  EXPECT_EQ(store_.create("journal/0", as_bytes("x"), by_).value(), Created::unknown);
  EXPECT_THAT(files("journal"), IsEmpty());
  fs_.link_answer = nullptr;
  EXPECT_EQ(store_.create("journal/0", as_bytes("x"), by_).value(), Created::created);
}

TEST_F(FileOrder, AdviceIsRenamedAndNotSynced) {
  ASSERT_TRUE(store_.advise("hint", as_bytes("x"), by_).ok());
  EXPECT_THAT(fs_.take_calls(), ElementsAre("create_excl hint.NONCE.tmp", "write", "close", "rename hint"));
  fs_.fail("rename", Code::unavailable);
  EXPECT_TRUE(store_.advise("hint", as_bytes("y"), by_).is(Code::unavailable));
  EXPECT_THAT(files(""), ElementsAre("hint"));
}

TEST_F(FileOrder, TemporariesAreHiddenSweptAndNeverKeepAFolder) {
  const std::string temporary = "object.0123456789abcdef.tmp";
  const auto leave = [&](const std::string& name) {
    ASSERT_TRUE(real_->append("data/" + name, as_bytes("torn")).ok());
  };
  ASSERT_TRUE(create("data/object.tmp").ok());
  ASSERT_TRUE(create("data/notes.0123456789ABCDEF.tmp").ok());
  leave(temporary);
  EXPECT_THAT(store_.list("data/", by_).value(), ElementsAre("notes.0123456789ABCDEF.tmp", "object.tmp"));
  const auto sweep = [&](const char* prefix, bool is_wanted) {
    return store_
        .sweep(
            prefix,
            [&](std::string_view object) {
              EXPECT_EQ(object, "object");
              return is_wanted;
            },
            by_)
        .value();
  };
  EXPECT_EQ(sweep("data/", false), 0U);
  EXPECT_EQ(sweep("data/", true), 1U);
  EXPECT_EQ(sweep("data/", true), 0U);
  EXPECT_EQ(sweep("none/", true), 0U);
  EXPECT_EQ(files("data").size(), 2U);
  leave(temporary);
  EXPECT_FALSE(store_.remove_folder("data/", by_).ok()) << "objects are in it";
  for (const char* name : {"data/object.tmp", "data/notes.0123456789ABCDEF.tmp"})
    ASSERT_TRUE(store_.remove(name, by_).ok());
  leave(temporary);
  EXPECT_TRUE(store_.remove_folder("data/", by_).ok());
  EXPECT_THAT(files(""), IsEmpty());
}

TEST_F(FileOrder, NamesThatAreNoKeysAreNotListed) {
  ASSERT_TRUE(create("data/object").ok());
  std::filesystem::create_directory(directory_.path() + "/data/a name with spaces");
  EXPECT_THAT(store_.list("data/", by_).value(), ElementsAre("object"));
}

TEST_F(FileOrder, ShortenedFileIsCorrupt) {
  ASSERT_TRUE(create("data/object", "0123456789").ok());
  const auto reader = store_.open_reader("data/object", by_).value();
  std::filesystem::resize_file(directory_.path() + "/data/object", 5);
  std::string into(10, '?');
  EXPECT_TRUE(reader->read(0, std::as_writable_bytes(std::span(into))).is(Code::corrupt));
}

/// A clock that a test moves.
class HandClock final : public Clock {
 public:
  Instant now() const override { return at; }
  std::int64_t wall_unix_ms() const override { return 0; }
  Instant at{};
};

TEST_F(FileOrder, DeadlineThatPassesMidwayLeavesNothing) {
  const std::vector<std::string> calls = {"create_excl journal/0.NONCE.tmp", "write", "sync", "close"};
  ASSERT_TRUE(real_->make_dir("journal").ok());
  for (std::size_t passed = 0; passed < 3; ++passed) {
    HandClock clock;
    FileStore store(fs_, clock, random_);
    const Deadline by{Instant{std::chrono::seconds(1)}, {}};
    fs_.on_call = [&](const std::string& call) {
      if (call == calls[passed]) clock.at = by.at;
    };
    EXPECT_TRUE(store.create("journal/0", as_bytes("x"), by).is(Code::late)) << calls[passed];
    fs_.heal();
    EXPECT_EQ(count(fs_.take_calls(), "link journal/0"), 0);
    EXPECT_THAT(files("journal"), IsEmpty());
  }
}

#ifdef UNBROKEN_WITH_MUTANTS
TEST_F(FileOrder, PlantedFaultsDoWhatTheyAreNamedAfter) {
  active_mutant = "no_dir_sync";
  ASSERT_TRUE(create("journal/0").ok());
  fs_.take_calls();
  EXPECT_TRUE(store_.sync("journal/", by_).ok());
  EXPECT_THAT(fs_.take_calls(), IsEmpty());
  active_mutant = "rename_instead_of_link";
  EXPECT_EQ(create("journal/0", "replaced").value(), Created::created);
  active_mutant = {};
  EXPECT_EQ(get("journal/0"), "replaced");
}
#endif

}  // namespace
}  // namespace unbroken
