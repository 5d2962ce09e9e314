#include "os/sandbox.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "os/descriptor.h"

namespace unbroken {

namespace {

using Work = std::function<Result<std::string>()>;

Result<std::string> run(const Work& work) {
  return run_in_sandbox({}, work, {.memory_bytes = std::uint64_t{256} << 20, .cpu_s = 20});
}

TEST(Sandbox, GivesBackWhatItsWorkReturns) {
  EXPECT_EQ(run([]() -> Result<std::string> { return std::string(1 << 20, 'x'); }).value(),
            std::string(1 << 20, 'x'));
  EXPECT_EQ(run([]() -> Result<std::string> { return std::string(); }).value(), "");
  const auto failed = run([]() -> Result<std::string> { return Error(Code::unavailable, "a disk"); });
  EXPECT_TRUE(failed.is(Code::unavailable));
  EXPECT_EQ(failed.error().what(), "a disk");
}

TEST(Sandbox, ReadsTheFilesItWasGivenAndNoOther) {
  const Descriptor given(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  const Descriptor other(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  const std::vector<int> files{given.get()};
  const auto count = [](int file) -> Result<std::string> {
    char byte = 0;
    return std::to_string(::read(file, &byte, 1));
  };
  EXPECT_EQ(run_in_sandbox(files, [&] { return count(given.get()); }).value(), "1");
  EXPECT_EQ(run_in_sandbox(files, [&] { return count(other.get()); }).value(), "-1");
}

/// Each of these would be a way out.
TEST(Sandbox, IsEndedByAnySystemCallBesidesReading) {
  const std::vector<std::pair<const char*, std::function<void()>>> ways{
      {"open", [] { static_cast<void>(::open("/etc/hostname", O_RDONLY)); }},
      {"create", [] { static_cast<void>(::open("/tmp/unbroken-sandbox-escape", O_WRONLY | O_CREAT, 0600)); }},
      {"unlink", [] { static_cast<void>(::unlink("/tmp/unbroken-sandbox-escape")); }},
      {"socket", [] { static_cast<void>(::socket(AF_INET, SOCK_STREAM, 0)); }},
      {"fork", [] { static_cast<void>(::fork()); }},
      {"exec",
       [] {
         char name[] = "/bin/true";
         char* const command[] = {name, nullptr};
         static_cast<void>(::execve(name, command, nullptr));
       }},
      {"kill", [] { static_cast<void>(::kill(::getppid(), 0)); }},
      {"code",
       [] {
         static_cast<void>(
             ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
       }},
  };
  for (const auto& [name, way] : ways) {
    const auto ended = run([&way = way]() -> Result<std::string> {
      way();
      return std::string("it went on");
    });
    EXPECT_TRUE(ended.is(Code::corrupt)) << name;
    EXPECT_NE(ended.ok() ? std::string() : ended.error().what(), std::string()) << name;
  }
  EXPECT_NE(::access("/tmp/unbroken-sandbox-escape", F_OK), 0);
}

TEST(Sandbox, SaysThatACrashIsTheFaultOfTheBytes) {
  const auto crashed = run([]() -> Result<std::string> { std::abort(); });
  EXPECT_TRUE(crashed.is(Code::corrupt));
}

TEST(Sandbox, StopsAnAnswerWithoutEnd) {
  const auto endless = run_in_sandbox({}, []() -> Result<std::string> { return std::string(1 << 20, 'x'); },
                                      {.output_bytes = 1000});
  EXPECT_TRUE(endless.is(Code::corrupt));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Sandbox, HasNoMoreMemoryThanItMayHave) {
  const auto large = run([]() -> Result<std::string> {
    std::vector<std::string> all;
    for (int i = 0; i < 64; ++i) all.emplace_back(std::size_t{16} << 20, 'x');
    return std::to_string(all.size());
  });
  EXPECT_TRUE(large.is(Code::corrupt));
  EXPECT_THAT(large.error().what(), testing::HasSubstr("memory"));
}
#endif

}  // namespace

}  // namespace unbroken
