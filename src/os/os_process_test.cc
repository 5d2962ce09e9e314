#include "os/os_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>

#include <set>
#include <string>
#include <vector>

#include "os/os_clock.h"
#include "os/test_support.h"

namespace unbroken {
namespace {

/// A child that waits to be killed; says who it is.
class Child {
 public:
  Child() {
    pid_ = start_child([] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) ::pause();
      return 0;
    });
    // The same boot and namespace; its own number and start.
    identity_ = OsProcess().self();
    identity_.pid = static_cast<std::uint64_t>(pid_);
    identity_.start_ticks = start_ticks();
  }
  ~Child() {
    if (is_reaped_) return;
    ::kill(pid_, SIGKILL);
    reap();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const ProcessIdentity& identity() const { return identity_; }
  void stop() {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  void become_zombie() {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT), 0);
  }
  void reap() {
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, 0), pid_);
    is_reaped_ = true;
  }

 private:
  /// As the child itself would say: the kernel gives it nowhere else.
  std::uint64_t start_ticks() const {
    std::string path = "/proc/" + std::to_string(pid_) + "/stat";
    std::FILE* const file = std::fopen(path.c_str(), "r");
    EXPECT_NE(file, nullptr);
    unsigned long long ticks = 0;
    EXPECT_EQ(
        std::fscanf(
            file,
            "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
            &ticks),
        1);
    std::fclose(file);
    return ticks;
  }

  pid_t pid_ = -1;
  ProcessIdentity identity_;
  bool is_reaped_ = false;
};

TEST(OsProcess, KnowsHowItWasStarted) {
  const std::vector<std::string> words = OsProcess().command_line();
  ASSERT_FALSE(words.empty());
  EXPECT_TRUE(words.front().ends_with("os_test")) << words.front();
}

TEST(OsProcess, KnowsItselfToBeAlive) {
  const OsProcess process;
  const ProcessIdentity self = process.self();
  EXPECT_EQ(self.pid, static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(self.boot_id.size(), 36U);
  EXPECT_NE(self.pid_namespace, 0U);
  EXPECT_NE(self.start_ticks, 0U);
  EXPECT_FALSE(self.host.empty());
  EXPECT_EQ(process.self(), self);
  EXPECT_EQ(process.liveness(self), Liveness::alive);
}

TEST(OsProcess, StoppedIsAliveZombieAndGoneAreDead) {
  const OsProcess process;
  Child child;
  EXPECT_EQ(process.liveness(child.identity()), Liveness::alive);
  child.stop();
  EXPECT_EQ(process.liveness(child.identity()), Liveness::alive);
  child.become_zombie();
  EXPECT_EQ(process.liveness(child.identity()), Liveness::dead);
  child.reap();
  EXPECT_EQ(process.liveness(child.identity()), Liveness::dead);
}

TEST(OsProcess, NumberGivenOutAgainIsDead) {
  Child child;
  ProcessIdentity earlier = child.identity();
  --earlier.start_ticks;
  EXPECT_EQ(OsProcess().liveness(earlier), Liveness::dead);
}

TEST(OsProcess, ProgramNamesDoNotConfuseIt) {
  EXPECT_EQ(
      run_in_child([] {
        ::prctl(PR_SET_NAME, "a) Z 1 (b");
        const OsProcess process;
        return process.liveness(process.self()) == Liveness::alive && process.self().start_ticks > 0 ? 0 : 1;
      }),
      0);
}

TEST(OsProcess, OtherMachinesAndContainersAreUnknown) {
  const OsProcess process;
  ProcessIdentity boot = process.self(), space = process.self(), none = process.self();
  boot.boot_id = "00000000-0000-0000-0000-000000000000";
  ++space.pid_namespace;
  none.pid = 0;
  EXPECT_EQ(process.liveness(boot), Liveness::unknown);
  EXPECT_EQ(process.liveness(space), Liveness::unknown);
  EXPECT_EQ(process.liveness(none), Liveness::unknown);
  EXPECT_EQ(process.liveness({}), Liveness::unknown);
}

TEST(OsProcess, ReadsTheEnvironment) {
  const OsProcess process;
  ::setenv("UNBROKEN_TEST_VARIABLE", "", 1);
  EXPECT_EQ(process.env("UNBROKEN_TEST_VARIABLE"), "");
  ::setenv("UNBROKEN_TEST_VARIABLE", "x=y", 1);
  EXPECT_EQ(process.env("UNBROKEN_TEST_VARIABLE"), "x=y");
  ::unsetenv("UNBROKEN_TEST_VARIABLE");
  EXPECT_EQ(process.env("UNBROKEN_TEST_VARIABLE"), std::nullopt);
}

TEST(OsClock, GoesForward) {
  const OsClock clock;
  Instant before = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const Instant now = clock.now();
    ASSERT_LE(before, now);
    before = now;
  }
  EXPECT_GT(clock.wall_unix_ms(), 1'700'000'000'000) << "after 2023";
}

TEST(OsRandom, NeverRepeatsItself) {
  OsRandom random;
  std::set<std::uint64_t> drawn;
  for (int i = 0; i < 1000; ++i) drawn.insert(random.next());
  EXPECT_EQ(drawn.size(), 1000U);
}

TEST(OsRandom, ForksDrawForThemselves) {
  OsRandom random;
  random.next();
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  ASSERT_EQ(run_in_child([&] {
              const std::uint64_t theirs = random.next();
              return ::write(pipe[1], &theirs, sizeof(theirs)) == sizeof(theirs) ? 0 : 1;
            }),
            0);
  std::uint64_t theirs = 0;
  ASSERT_EQ(::read(pipe[0], &theirs, sizeof(theirs)), static_cast<ssize_t>(sizeof(theirs)));
  EXPECT_NE(theirs, random.next());
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace unbroken
