// What the system may answer, call by call.
#include "os/syscalls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "os/direct/file_io.h"
#include "os/os_fs.h"
#include "os/test_support.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

// What the bent calls answer; a test sets them first.
int call_count = 0;
int bent_errno = 0;
int second_errno = 0;

/// Every other call is interrupted; the rest moves at most 7 bytes.
ssize_t short_pwrite(int file, const void* data, std::size_t count, off_t offset) {
  if (++call_count % 2 == 0) return errno = EINTR, -1;
  return kSyscalls.pwrite(file, data, std::min<std::size_t>(count, 7), offset);
}
ssize_t short_pread(int file, void* into, std::size_t count, off_t offset) {
  if (++call_count % 2 == 0) return errno = EINTR, -1;
  return kSyscalls.pread(file, into, std::min<std::size_t>(count, 7), offset);
}
/// The first half arrives, then it fails.
ssize_t failing_pwrite(int file, const void* data, std::size_t count, off_t offset) {
  if (++call_count > 1) return errno = bent_errno, -1;
  return kSyscalls.pwrite(file, data, count / 2, offset);
}
ssize_t refusing_pwrite(int, const void*, std::size_t, off_t) {
  return 0;
}
ssize_t failing_pread(int, void*, std::size_t, off_t) {
  return errno = bent_errno, -1;
}
int failing_fsync(int) {
  ++call_count;
  return errno = bent_errno, -1;
}
int failing_close(int file) {
  kSyscalls.close(file);
  return errno = bent_errno, -1;
}
int failing_linkat(int, const char*, int, const char*, int) {
  return errno = bent_errno, -1;
}
int failing_renameat2(int, const char*, int, const char*, unsigned) {
  return errno = second_errno, -1;
}

class BentCalls : public testing::Test {
 protected:
  void SetUp() override { call_count = bent_errno = second_errno = 0; }
  Syscalls calls_ = kSyscalls;
  TemporaryDirectory run_;
  std::unique_ptr<OsFs> fs_ = OsFs::open(run_.path(), {.calls = &calls_}).value();

  Result<> write(FileId file, const std::string& text) {
    Result<> answer = Error(Code::bug, "no answer");
    fs_->write_at(file, 0, BufferRef::of(text), [&](Result<> result) { answer = std::move(result); });
    return answer;
  }
};

// failure: coreweave/tensorizer#82
TEST_F(BentCalls, ShortCountsAndInterruptionsAreGoneOnWith) {
  calls_.pwrite = short_pwrite;
  calls_.pread = short_pread;
  std::string text(1000, '\0');
  std::iota(text.begin(), text.end(), '\0');
  const FileId file = fs_->create_excl("file").value();
  ASSERT_TRUE(write(file, text).ok());
  EXPECT_EQ(fs_->size(file).value(), 1000U);
  std::string found(1200, '?');
  EXPECT_EQ(fs_->read_at(file, 0, std::as_writable_bytes(std::span(found))).value(), 1000U);
  EXPECT_EQ(found.substr(0, 1000), text);
  EXPECT_EQ(fs_->read_at(file, 990, std::as_writable_bytes(std::span(found).first(5))).value(), 5U);
  EXPECT_EQ(found.substr(0, 5), text.substr(990, 5));
  ASSERT_TRUE(fs_->append("log", as_bytes(text)).ok());
  ASSERT_TRUE(fs_->append("log", as_bytes("more")).ok());
  EXPECT_EQ(fs_->info("log").value().bytes, 1004U);
  EXPECT_TRUE(fs_->close(file).ok());
}

// failure: coreweave/tensorizer#82
TEST_F(BentCalls, WriteThatFailsHalfwayFails) {
  calls_.pwrite = failing_pwrite;
  const FileId file = fs_->create_excl("file").value();
  for (const auto& [number, code] : {std::pair{ENOSPC, Code::no_space},
                                     {EDQUOT, Code::no_space},
                                     {EFBIG, Code::no_space},
                                     {EIO, Code::unavailable},
                                     {EBADF, Code::unavailable}}) {
    call_count = 0;
    bent_errno = number;
    EXPECT_TRUE(write(file, "0123456789").is(code)) << number;
  }
  calls_.pwrite = refusing_pwrite;
  EXPECT_TRUE(write(file, "0123456789").is(Code::no_space)) << "no endless loop";
  EXPECT_TRUE(write(file, "").ok());
  EXPECT_TRUE(fs_->close(file).ok());
}

TEST_F(BentCalls, ReadThatFailsFails) {
  calls_.pread = failing_pread;
  bent_errno = EIO;
  const FileId file = fs_->create_excl("file").value();
  std::string found(10, '?');
  const auto read = fs_->read_at(file, 0, std::as_writable_bytes(std::span(found)));
  ASSERT_TRUE(read.is(Code::unavailable));
  EXPECT_THAT(read.error().what(), HasSubstr("EIO"));
  EXPECT_TRUE(fs_->close(file).ok());
}

TEST_F(BentCalls, SyncIsAskedForOnceAndItsFailureTold) {
  const FileId file = fs_->create_excl("file").value();
  calls_.fsync = failing_fsync;
  for (const auto& [number, code] : {std::pair{EIO, Code::unavailable},
                                     {ENOSPC, Code::no_space},
                                     {EDQUOT, Code::no_space},
                                     {EINTR, Code::unavailable}}) {
    call_count = 0;
    bent_errno = number;
    EXPECT_TRUE(fs_->sync(file).is(code)) << number;
    EXPECT_EQ(call_count, 1);
    EXPECT_TRUE(fs_->sync_dir("").is(code)) << number;
  }
  bent_errno = EINVAL;
  EXPECT_TRUE(fs_->sync_dir("").is(Code::unsupported))
      << "a directory that cannot be synced is no place for a journal";
  EXPECT_TRUE(fs_->close(file).ok());
}

TEST_F(BentCalls, CloseTellsALateWriteError) {
  calls_.close = failing_close;
  for (const auto& [number, is_ok] : {std::pair{EIO, false}, {ENOSPC, false}, {EINTR, true}}) {
    bent_errno = number;
    const FileId file = fs_->create_excl(std::to_string(number)).value();
    EXPECT_EQ(fs_->close(file).ok(), is_ok) << number;
  }
}

TEST_F(BentCalls, LinkNamesWhatTheSystemSaid) {
  ASSERT_TRUE(fs_->close(fs_->create_excl("file").value()).ok());
  calls_.linkat = failing_linkat;
  calls_.renameat2 = failing_renameat2;
  second_errno = EINVAL;
  for (const int number : {EIO, ESTALE, ETIMEDOUT, EINTR}) {
    bent_errno = number;
    const auto linked = fs_->link("file", "name");
    ASSERT_TRUE(linked.is(Code::unavailable)) << number;
    EXPECT_EQ(linked.error().system_error(), number);
    EXPECT_EQ(linked.error().what().find(std::string("link: ") + strerrorname_np(number)), 0u);
  }
  for (const auto& [number, code] : {std::pair{EACCES, Code::unavailable},
                                     {EROFS, Code::unavailable},
                                     {ENOENT, Code::not_found},
                                     {ENOSPC, Code::no_space},
                                     {EMLINK, Code::unavailable},
                                     {EPERM, Code::unsupported},
                                     {EOPNOTSUPP, Code::unsupported},
                                     {ENOSYS, Code::unsupported}}) {
    bent_errno = number;
    EXPECT_TRUE(fs_->link("file", "name").is(code)) << number;
  }
  bent_errno = EEXIST;
  EXPECT_EQ(fs_->link("file", "name").value(), Created::exists);
}

TEST_F(BentCalls, WithoutLinksNamesAreMovedWithoutReplacing) {
  for (const char* name : {"one", "two"}) ASSERT_TRUE(fs_->close(fs_->create_excl(name).value()).ok());
  calls_.linkat = failing_linkat;
  bent_errno = EPERM;
  EXPECT_EQ(fs_->link("one", "name").value(), Created::created);
  EXPECT_TRUE(fs_->info("one").is(Code::not_found));
  EXPECT_EQ(fs_->link("two", "name").value(), Created::exists);
  EXPECT_TRUE(fs_->info("two").ok());
  calls_.renameat2 = failing_renameat2;
  for (const int number : {EIO, ESTALE}) {
    second_errno = number;
    EXPECT_EQ(fs_->link("two", "other").error().system_error(), number);
  }
  second_errno = EEXIST;
  EXPECT_EQ(fs_->link("two", "other").value(), Created::exists);
  second_errno = EACCES;
  EXPECT_TRUE(fs_->link("two", "other").is(Code::unavailable));
}

}  // namespace
}  // namespace unbroken
