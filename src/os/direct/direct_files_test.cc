// Large files past the cache of the machine: the same bytes whatever is aligned and whatever the system says.
#include "os/direct/direct_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/pages.h"
#include "os/os_fs.h"
#include "os/test_support.h"

namespace unbroken {
namespace {

std::set<int> used;  // the descriptors that were written to and read from
bool is_direct_refused = false;
std::size_t count_max = 0;  // a call moves no more than this; 0: all
int fallocate_errno = 0;

bool is_direct(int file) {
  return (::fcntl(file, F_GETFL) & O_DIRECT) != 0;
}

template <class Call, class Memory>
ssize_t bent(Call call, int file, Memory memory, std::size_t count, off_t offset) {
  used.insert(file);
  if (is_direct_refused && is_direct(file)) return errno = EINVAL, -1;
  return call(file, memory, count_max == 0 ? count : std::min(count, count_max), offset);
}
ssize_t bent_pwrite(int file, const void* data, std::size_t count, off_t offset) {
  return bent(kSyscalls.pwrite, file, data, count, offset);
}
ssize_t bent_pread(int file, void* into, std::size_t count, off_t offset) {
  return bent(kSyscalls.pread, file, into, count, offset);
}
int bent_fallocate(int, int, off_t, off_t) {
  return errno = fallocate_errno, -1;
}

class DirectFilesTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSize = 3 * Pages::kBytes + 100;

  void SetUp() override {
    used.clear();
    is_direct_refused = false;
    count_max = 0;
    calls_.pwrite = bent_pwrite;
    calls_.pread = bent_pread;
    for (std::uint64_t i = 0; i < kSize; ++i) memory_.data()[i] = static_cast<std::byte>(i * 31 + i / 251);
  }

  Result<> write(FileId file, std::uint64_t offset, Bytes bytes) {
    Result<> answer = Error(Code::bug, "no answer");
    fs_->write_at(file, offset, BufferRef(nullptr, bytes),
                  [&](Result<> result) { answer = std::move(result); });
    return answer;
  }
  std::string read(FileId file, std::uint64_t offset, std::uint64_t count, std::uint64_t shift = 0) {
    const Pages into = Pages::make(shift + count);
    EXPECT_EQ(fs_->read_at(file, offset, MutableBytes(into.data() + shift, count)).value(), count);
    return {reinterpret_cast<const char*>(into.data() + shift), count};
  }
  bool is_any_direct() const { return std::any_of(used.begin(), used.end(), is_direct); }
  std::string_view text() const { return {reinterpret_cast<const char*>(memory_.data()), kSize}; }

  Syscalls calls_ = kSyscalls;
  TemporaryDirectory run_;
  std::unique_ptr<OsFs> fs_ = OsFs::open(run_.path(), {.calls = &calls_}).value();
  Pages memory_ = Pages::make(kSize);
};

TEST_F(DirectFilesTest, TheBytesAreTheSameHoweverTheyAreMoved) {
  struct Case {
    const char* name;
    bool is_bypassing, is_refused;
    std::size_t count_max;
  };
  for (const Case c : {Case{"cached", false, false, 0},
                       {"direct", true, false, 0},
                       {"refused", true, true, 0},
                       {"short", true, false, 4096 + 512},
                       {"shorter", true, false, 512}}) {
    SCOPED_TRACE(c.name);
    used.clear();
    is_direct_refused = c.is_refused;
    count_max = c.count_max;
    const FileId file = fs_->create_excl(c.name).value();
    ASSERT_TRUE(fs_->reserve(file, kSize).ok());
    if (c.is_bypassing) fs_->bypass_cache(file, c.name);
    const Bytes whole{memory_.data(), kSize};
    ASSERT_TRUE(write(file, Pages::kBytes, whole.subspan(Pages::kBytes)).ok());
    ASSERT_TRUE(write(file, 0, whole.first(Pages::kBytes)).ok());
    EXPECT_EQ(is_any_direct(), c.is_bypassing);
    EXPECT_EQ(fs_->size(file).value(), kSize);
    ASSERT_TRUE(fs_->sync(file).ok());
    EXPECT_EQ(read(file, 0, kSize), text());
    EXPECT_EQ(read(file, 0, kSize, 64), text()) << "memory that is not aligned";
    EXPECT_EQ(read(file, 5, 4096), text().substr(5, 4096)) << "an offset that is not aligned";
    ASSERT_TRUE(fs_->close(file).ok());
  }
}

TEST_F(DirectFilesTest, ADescriptorThatIsUsedAgainIsAnotherFile) {
  for (const char* name : {"one", "two"}) {
    const FileId file = fs_->create_excl(name).value();
    fs_->bypass_cache(file, name);
    ASSERT_TRUE(write(file, 0, {memory_.data(), Pages::kBytes}).ok());
    ASSERT_TRUE(fs_->close(file).ok());
    used.clear();
  }
  const FileId plain = fs_->create_excl("three").value();
  ASSERT_TRUE(write(plain, 0, {memory_.data(), Pages::kBytes}).ok());
  EXPECT_FALSE(is_any_direct());
  EXPECT_EQ(fs_->info("two").value().bytes, Pages::kBytes);
  EXPECT_TRUE(fs_->close(plain).ok());
}

TEST_F(DirectFilesTest, AFileThatTookTheNameIsNotWrittenTo) {
  const FileId ours = fs_->create_excl("file").value();
  ASSERT_TRUE(fs_->unlink("file").ok());
  const FileId theirs = fs_->create_excl("file").value();
  fs_->bypass_cache(ours, "file");
  ASSERT_TRUE(write(ours, 0, {memory_.data(), Pages::kBytes}).ok());
  EXPECT_EQ(fs_->size(theirs).value(), 0u);
  EXPECT_EQ(fs_->size(ours).value(), Pages::kBytes);
  EXPECT_TRUE(fs_->close(ours).ok());
  EXPECT_TRUE(fs_->close(theirs).ok());
}

// failure: coreweave/tensorizer#82
TEST_F(DirectFilesTest, RoomThatIsNotThereIsSaidAndRoomThatCannotBeTakenIsNot) {
  const FileId file = fs_->create_excl("file").value();
  calls_.fallocate = bent_fallocate;
  for (const auto& [number, code] : {std::pair{ENOSPC, Code::no_space},
                                     {EDQUOT, Code::no_space},
                                     {EFBIG, Code::no_space},
                                     {EIO, Code::unavailable}}) {
    fallocate_errno = number;
    EXPECT_TRUE(fs_->reserve(file, kSize).is(code)) << number;
  }
  for (const int number : {EOPNOTSUPP, ENOSYS, EINVAL}) {
    fallocate_errno = number;
    EXPECT_TRUE(fs_->reserve(file, kSize).ok()) << number;
  }
  EXPECT_TRUE(fs_->close(file).ok());
}

TEST(Pages, AreAlignedZerosOfAtLeastTheSizeAskedFor) {
  for (const std::uint64_t bytes : {0ULL, 1ULL, 4096ULL, 4097ULL, 1ULL << 20, (1ULL << 21) + 1}) {
    const Pages pages = Pages::make(bytes);
    ASSERT_TRUE(pages);
    EXPECT_GE(pages.size(), bytes);
    EXPECT_EQ(
        reinterpret_cast<std::uintptr_t>(pages.data()) % (bytes < (1 << 20) ? 4096 : Pages::kLargeBytes), 0u);
    for (const std::uint64_t at : {std::uint64_t{0}, pages.size() - 1})
      EXPECT_EQ(pages.data()[at], std::byte{0});
    std::memset(pages.data(), 1, pages.size());
  }
  EXPECT_FALSE(Pages::make(std::uint64_t{1} << 60));
  EXPECT_FALSE(Pages::make(~std::uint64_t{0}));
  EXPECT_EQ(Pages().size(), 0u);
}

}  // namespace
}  // namespace unbroken
