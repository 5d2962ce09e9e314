// What the kernel may answer to a write in the ring: less than was asked for, a failure, or nothing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "base/pages.h"
#include "os/direct/bent_ring.h"
#include "os/direct/ring.h"
#include "os/os_fs.h"
#include "os/test_support.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kBytes = 6 * Pages::kBytes + 77;

/// Files that answer every write alike, at these offsets too.
struct Answering {
  const char* path;
  int number;
  Code code;
};
constexpr Answering kAnswers[] = {{"/dev/full", ENOSPC, Code::no_space},
                                  {"/proc/self/mem", EIO, Code::unavailable}};  // nothing is mapped there

class RingAnswers : public testing::Test {
 protected:
  void SetUp() override {
    if (!Ring::open(kSyscalls, 2).ok()) GTEST_SKIP() << "no io_uring here";
    for (std::uint64_t i = 0; i < kBytes; ++i) memory_.data()[i] = static_cast<std::byte>(i * 31 + i / 251);
    fs_ = OsFs::open(run_.path(), {.engine = WriteEngine::ring, .calls = &calls_}).value();
  }
  Bytes bytes() const { return {memory_.data(), kBytes}; }
  /// A new file, past the cache.
  FileId begin(const char* name) const {
    const FileId file = fs_->create_excl(name).value();
    fs_->bypass_cache(file, name);
    return file;
  }
  /// All of it in two writes, the second one first; the answer of each.
  std::vector<Result<>> write(FileId file) const {
    std::vector<Result<>> answers(2, Error(Code::bug, "no answer"));
    const std::uint64_t half = 3 * Pages::kBytes;
    fs_->write_at(file, half, BufferRef(nullptr, bytes().subspan(half)), [&](Result<> r) { answers[1] = r; });
    fs_->settle(file);  // so that the first one is the second to be asked for
    fs_->write_at(file, 0, BufferRef(nullptr, bytes().first(half)), [&](Result<> r) { answers[0] = r; });
    fs_->settle(file);
    return answers;
  }
  void expect_whole(FileId file) const {
    for (const Result<>& answer : write(file)) EXPECT_TRUE(answer.ok()) << answer.error().what();
    std::vector<std::byte> found(kBytes);
    EXPECT_EQ(fs_->read_at(file, 0, found).value(), kBytes);
    EXPECT_TRUE(std::ranges::equal(found, bytes()));
    EXPECT_TRUE(fs_->close(file).ok());
  }

  BentRing bent_;
  Syscalls calls_ = BentRing::calls();
  TemporaryDirectory run_;
  const Pages memory_ = Pages::make(kBytes);
  std::unique_ptr<OsFs> fs_;
};

TEST_F(RingAnswers, ThatOfAWriteIsTold) {
  const auto ring = Ring::open(kSyscalls, 2).value();
  for (const Answering& answering : kAnswers) {
    const Descriptor file(::open(answering.path, O_WRONLY | O_CLOEXEC));
    int told = 0;
    ring->write(file.get(), 0, as_bytes("text"), [&](int moved) { told = moved; });
    ring->settle(file.get());
    EXPECT_EQ(told, -answering.number) << answering.path;
  }
}

// failure: coreweave/tensorizer#82
TEST_F(RingAnswers, AWriteThatIsCutShortIsGoneOnWith) {
  for (const unsigned most : {8192U, 4096U, 512U, 0U}) {
    bent_.bend = [most](io_uring_sqe& write, unsigned) { write.len = std::min(write.len, most); };
    const unsigned before = bent_.writes();
    expect_whole(begin(std::to_string(most).c_str()));
    EXPECT_EQ(bent_.writes(), before + 2) << "it was the ring that was asked";
  }
}

TEST_F(RingAnswers, AFailureIsTheWritesAndNoOthers) {
  for (const Answering& answering : kAnswers) {
    const Descriptor other(::open(answering.path, O_WRONLY | O_CLOEXEC));
    const unsigned before = bent_.writes();
    bent_.bend = [&](io_uring_sqe& write, unsigned n) {
      if (n == before) write.fd = other.get(), write.off = 0;
    };
    const FileId file = begin(answering.path + 1 + std::string_view(answering.path).rfind('/'));
    const auto answers = write(file);
    EXPECT_TRUE(answers[0].ok());
    ASSERT_TRUE(answers[1].is(answering.code)) << answering.path;
    EXPECT_THAT(answers[1].error().what(), HasSubstr(strerrorname_np(answering.number)));
    EXPECT_TRUE(fs_->close(file).ok());
  }
}

int failing_errno = 0;
ssize_t failing_pwrite(int, const void*, std::size_t, off_t) {
  return errno = failing_errno, -1;
}

TEST_F(RingAnswers, AFailureOfWhatWasLeftIsTold) {
  bent_.bend = [](io_uring_sqe& write, unsigned) { write.len = Pages::kBytes; };
  calls_.pwrite = failing_pwrite;
  for (const auto& [number, code] : {std::pair{ENOSPC, Code::no_space},
                                     {EDQUOT, Code::no_space},
                                     {EFBIG, Code::no_space},
                                     {EIO, Code::unavailable}}) {
    failing_errno = number;
    const FileId file = begin(std::to_string(number).c_str());
    for (const Result<>& answer : write(file)) EXPECT_TRUE(answer.is(code)) << number;
    EXPECT_TRUE(fs_->close(file).ok());
  }
}

TEST_F(RingAnswers, AWriteThatIsNotTakenIsWrittenByItsThread) {
  for (const int number : {EAGAIN, EBUSY, ENOMEM, EINVAL, EOPNOTSUPP}) {
    bent_.refuse = [number](unsigned) { return number; };
    expect_whole(begin(std::to_string(number).c_str()));
  }
  bent_.refuse = [](unsigned) { return EBADF; };
  const FileId file = begin("file");
  for (const Result<>& answer : write(file)) EXPECT_TRUE(answer.is(Code::unavailable));
  EXPECT_TRUE(fs_->close(file).ok());
}

/// EAGAIN is no answer to a write that nobody wants to be told about early.
TEST_F(RingAnswers, AWriteThatTheKernelWouldRatherNotWaitForIsWritten) {
  bent_.bend = [](io_uring_sqe& write, unsigned) { write.rw_flags = RWF_NOWAIT; };
  expect_whole(begin("file"));  // room for it has to be found first, which takes its time
}

/// No file may grow beyond this: what fits is written, and the rest is refused.
TEST_F(RingAnswers, StorageThatTakesAPartSaysSo) {
  EXPECT_EQ(run_in_child([&] {
              const rlimit limit{2 * Pages::kBytes, 2 * Pages::kBytes};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0 || ::signal(SIGXFSZ, SIG_IGN) == SIG_ERR) return 2;
              const auto fs = OsFs::open(run_.path(), {.engine = WriteEngine::ring}).value();
              const FileId file = fs->create_excl("file").value();
              fs->bypass_cache(file, "file");
              std::optional<Result<>> answer;
              fs->write_at(file, 0, BufferRef(nullptr, bytes()), [&](Result<> r) { answer = std::move(r); });
              fs->settle(file);
              const bool is_told =
                  answer && answer->is(Code::no_space) && answer->error().system_error() == EFBIG;
              return is_told && fs->size(file).value() == 2 * Pages::kBytes ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace unbroken
