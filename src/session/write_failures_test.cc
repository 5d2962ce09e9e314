// A large object on real files, by real threads or by the ring: where the storage fails in the middle of it
// the failure is told, nothing is left of the object, and the next one is written.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/pages.h"
#include "engine/write/write_object.h"
#include "filestore/file_store.h"
#include "os/direct/bent_ring.h"
#include "os/os_clock.h"
#include "os/os_executor.h"
#include "os/os_fs.h"
#include "os/os_process.h"
#include "os/test_support.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kBytes = 3 * kBlockBytes + 12'345;
constexpr std::string_view kKey = "data/x";

std::atomic<unsigned> call_count = 0;
std::atomic<unsigned> failing_call = 0;  // from 1; 0: none
int failing_errno = 0;
std::size_t count_max = 0;  // a call moves no more than this; 0: all

ssize_t bent_pwrite(int file, const void* data, std::size_t count, off_t offset) {
  if (++call_count == failing_call) return errno = failing_errno, -1;
  return kSyscalls.pwrite(file, data, count_max == 0 ? count : std::min(count, count_max), offset);
}

/// Files that answer every write with this.
const char* answering(int number) {
  return number == EIO ? "/proc/self/mem" : "/dev/full";
}

class WriteFailures : public testing::TestWithParam<WriteEngine> {
 protected:
  void SetUp() override {
    call_count = failing_call = 0;
    count_max = 0;
    calls_.pwrite = bent_pwrite;
    fs_ = OsFs::open(run_.path(), {.engine = GetParam(), .calls = &calls_}).value();
    if (fs_->engine() != GetParam()) GTEST_SKIP() << fs_->engine_note();
    store_.emplace(*fs_, clock_, random_, FileStoreOptions{.path = run_.path()});
    for (std::uint64_t i = 0; i < kBytes; ++i) memory_.data()[i] = static_cast<std::byte>(i * 31 + i / 251);
  }
  Bytes bytes() const { return {memory_.data(), kBytes}; }
  Result<> write() {
    const Seams seams{clock_, random_, *executor_, *store_, process_};
    const std::vector<BufferRef> parts{BufferRef(nullptr, bytes())};
    return write_object(seams, kKey, parts, seams.within(std::chrono::minutes(1)));
  }
  void expect_whole() {
    ASSERT_TRUE(write().ok());
    const Deadline by{clock_.now() + std::chrono::minutes(1), {}};
    const auto reader = store_->open_reader(kKey, by).value();
    ASSERT_EQ(reader->bytes(), kBytes);
    std::vector<std::byte> found(kBytes);
    ASSERT_TRUE(reader->read(0, found).ok());
    EXPECT_TRUE(std::ranges::equal(found, bytes()));
    ASSERT_TRUE(store_->remove(kKey, by).ok());
  }

  BentRing bent_;
  Syscalls calls_ = BentRing::calls();
  const TemporaryDirectory run_;
  OsClock clock_;
  OsRandom random_;
  OsProcess process_;
  const Pages memory_ = Pages::make(kBytes);
  std::unique_ptr<OsFs> fs_;
  std::optional<FileStore> store_;
  std::unique_ptr<OsExecutor> executor_ = OsExecutor::start().value();  // ends first
};

TEST_P(WriteFailures, AreToldAndLeaveNothing) {
  for (const int number : {EIO, ENOSPC})
    for (const unsigned nth : {1U, 2U, 4U}) {
      SCOPED_TRACE(testing::Message() << strerrorname_np(number) << " of " << nth);
      const Descriptor other(::open(answering(number), O_WRONLY | O_CLOEXEC));
      const unsigned before = bent_.writes();
      bent_.bend = [&](io_uring_sqe& write, unsigned n) {
        if (n + 1 == before + nth) write.fd = other.get(), write.off = 0;
      };
      failing_errno = number;
      call_count = 0;
      failing_call = GetParam() == WriteEngine::ring ? 0 : nth;
      const auto written = write();
      ASSERT_TRUE(written.is(number == EIO ? Code::unavailable : Code::no_space));
      EXPECT_THAT(written.error().what(), HasSubstr(std::string("write ") + std::string(kKey)));
      EXPECT_THAT(written.error().what(), HasSubstr(strerrorname_np(number)));
      EXPECT_TRUE(fs_->info(kKey).is(Code::not_found));
      bent_.bend = {};
      failing_call = 0;
      expect_whole();
    }
}

TEST_P(WriteFailures, ShortCountsAreNone) {
  for (const unsigned most : {(1U << 20) + 4096, (3U << 20) + 512}) {
    bent_.bend = [most](io_uring_sqe& write, unsigned) { write.len = std::min(write.len, most); };
    count_max = most;
    expect_whole();
  }
}

std::string name_of(const testing::TestParamInfo<WriteEngine>& engine) {
  return engine.param == WriteEngine::ring ? "Ring" : "Threads";
}
INSTANTIATE_TEST_SUITE_P(Engines, WriteFailures, testing::Values(WriteEngine::threads, WriteEngine::ring),
                         name_of);

}  // namespace
}  // namespace unbroken
