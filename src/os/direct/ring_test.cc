#include "os/direct/ring.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/pages.h"
#include "os/os_fs.h"
#include "os/test_support.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

Syscalls refusing(int (*setup)(unsigned, void*)) {
  Syscalls calls = kSyscalls;
  calls.io_uring_setup = setup;
  return calls;
}

bool is_there() {
  return Ring::open(kSyscalls, 2).ok();
}

std::string text_of(std::uint64_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>((i * 2654435761U) >> 9);
  return out;
}

TEST(Ring, WritesMoreThanItsDepthAndTellsOfEachOnce) {
  if (!is_there()) GTEST_SKIP() << "no io_uring here";
  constexpr unsigned kWrites = 100;
  constexpr std::size_t kBytes = 1000;
  const TemporaryDirectory directory;
  const auto fs = OsFs::open(directory.path()).value();
  const int file = static_cast<int>(fs->create_excl("file").value());
  const std::string text = text_of(kWrites * kBytes);
  std::vector<std::atomic<int>> told(kWrites);
  {
    const auto ring = Ring::open(kSyscalls, 3).value();
    for (unsigned i = 0; i < kWrites; ++i)
      ring->write(file, i * kBytes, as_bytes(text).subspan(i * kBytes, kBytes), [&told, i](int moved) {
        EXPECT_EQ(moved, static_cast<int>(kBytes));
        ++told[i];
      });
    ring->settle(file);
    for (const auto& count : told) EXPECT_EQ(count.load(), 1);
  }
  std::string found(text.size(), '\0');
  EXPECT_EQ(fs->read_at(FileId{file}, 0, std::as_writable_bytes(std::span(found))).value(), text.size());
  EXPECT_TRUE(found == text);
}

TEST(Ring, SaysWhyAWriteFailed) {
  if (!is_there()) GTEST_SKIP() << "no io_uring here";
  const auto ring = Ring::open(kSyscalls, 2).value();
  const Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::atomic<int> told = 0;
  ring->write(file.get(), 0, as_bytes("text"), [&](int moved) { told = moved; });
  ring->settle(file.get());
  EXPECT_EQ(told.load(), -EBADF);
}

class RingFiles : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 5 * Pages::kBytes + 77;

  void SetUp() override {
    if (!is_there()) GTEST_SKIP() << "no io_uring here";
    for (std::uint64_t i = 0; i < kBytes; ++i) memory_.data()[i] = static_cast<std::byte>(i * 31 + i / 251);
  }
  /// What is written, part by part, is what is read, whatever of it is aligned.
  static void expect_written(OsFs& fs, Bytes bytes) {
    const FileId file = fs.create_excl("file").value();
    ASSERT_TRUE(fs.reserve(file, bytes.size()).ok());
    fs.bypass_cache(file, "file");
    std::atomic<int> answers = 0;
    const std::uint64_t half = 2 * Pages::kBytes;
    for (const std::uint64_t at : {half, std::uint64_t{0}})
      fs.write_at(file, at, BufferRef(nullptr, bytes.subspan(at, at == 0 ? half : bytes.size() - half)),
                  [&](Result<> result) { answers += result.ok() ? 1 : 100; });
    fs.settle(file);
    EXPECT_EQ(answers.load(), 2);
    ASSERT_TRUE(fs.sync(file).ok());
    std::vector<std::byte> found(bytes.size());
    EXPECT_EQ(fs.read_at(file, 0, found).value(), bytes.size());
    EXPECT_TRUE(std::ranges::equal(found, bytes));
    ASSERT_TRUE(fs.close(file).ok());
    ASSERT_TRUE(fs.unlink("file").ok());
  }

  const Pages memory_ = Pages::make(kBytes);
};

TEST_F(RingFiles, HoldWhatWasWrittenWhateverIsAligned) {
  const TemporaryDirectory directory;
  const auto fs = OsFs::open(directory.path(), {.engine = WriteEngine::ring}).value();
  EXPECT_EQ(fs->engine(), WriteEngine::ring);
  EXPECT_EQ(fs->engine_note(), "");
  expect_written(*fs, {memory_.data(), kBytes});
  expect_written(*fs, {memory_.data() + 1, kBytes - 1});
}

TEST_F(RingFiles, HoldItWhereTheStorageKnowsNoDirectWrites) {
  const std::string in_memory = "/dev/shm/unbroken-ring-" + std::to_string(::getpid());
  const auto fs = OsFs::open(in_memory, {.is_created = true, .engine = WriteEngine::ring}).value();
  expect_written(*fs, {memory_.data(), kBytes});
  std::filesystem::remove_all(in_memory);
}

TEST(RingRefused, MeansThreadsAndALineThatSaysSo) {
  for (const auto& [setup, name] : std::vector<std::pair<int (*)(unsigned, void*), const char*>>{
           {[](unsigned, void*) { return errno = ENOSYS, -1; }, "ENOSYS"},
           {[](unsigned, void*) { return errno = EPERM, -1; }, "EPERM"},
           {[](unsigned, void*) { return errno = EINVAL, -1; }, "EINVAL"}}) {
    const TemporaryDirectory directory;
    const Syscalls calls = refusing(setup);
    const auto fs = OsFs::open(directory.path(), {.engine = WriteEngine::ring, .calls = &calls}).value();
    EXPECT_EQ(fs->engine(), WriteEngine::threads);
    EXPECT_THAT(fs->engine_note(), HasSubstr(name));
    const FileId file = fs->create_excl("file").value();
    bool is_written = false;
    fs->write_at(file, 0, BufferRef::of("text"), [&](Result<> result) { is_written = result.ok(); });
    fs->settle(file);
    EXPECT_TRUE(is_written);
    ASSERT_TRUE(fs->close(file).ok());
  }
}

}  // namespace
}  // namespace unbroken
