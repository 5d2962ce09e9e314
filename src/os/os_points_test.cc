#include "os/os_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <map>

#include "base/point.h"
#include "os/test_support.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

using Variables = std::map<std::string, std::string, std::less<>>;

class FakeProcess final : public Process {
 public:
  explicit FakeProcess(Variables variables) : variables_(std::move(variables)) {}
  ProcessIdentity self() const override { return {}; }
  Liveness liveness(const ProcessIdentity&) const override { return Liveness::unknown; }
  std::vector<std::string> command_line() const override { return {}; }
  std::optional<std::string> env(std::string_view name) const override {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return std::nullopt;
    return found->second;
  }

 private:
  Variables variables_;
};

/// Passes a, b, a, b, a, b; then 0.
int pass_points() {
  for (int i = 0; i < 3; ++i) {
    UNBROKEN_POINT("test.a");
    UNBROKEN_POINT("test.b");
  }
  return 0;
}

/// In a child: installs what `variables` say, then passes the points. 99 where they are refused.
pid_t start_drilled(const Variables& variables) {
  return start_child([&] { return install_points(FakeProcess(variables)).ok() ? pass_points() : 99; });
}

int end_of(pid_t pid) {
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

std::string content(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Points, KillAtTheNamedPass) {
  const TemporaryDirectory directory;
  for (const auto& [kill, lines] : std::map<std::string, std::string>{
           {"test.a:1:kill", "test.a\n"}, {"test.b:2:kill", "test.a\ntest.b\ntest.a\ntest.b\n"}}) {
    const std::string log = directory / kill;
    const int status = end_of(start_drilled({{"UNBROKEN_KILL", kill}, {"UNBROKEN_POINT_LOG", log}}));
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << kill;
    EXPECT_EQ(content(log), lines);
  }
  for (const char* kill : {"test.a:4:kill", "test.c:1:kill", "test:1:kill"})
    EXPECT_EQ(end_of(start_drilled({{"UNBROKEN_KILL", kill}})), 0) << kill;
}

TEST(Points, TermRaisesASignalThatMayBeHandled) {
  const int status = end_of(start_drilled({{"UNBROKEN_KILL", "test.b:3:term"}}));
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  EXPECT_EQ(run_in_child([] {
              static volatile sig_atomic_t count = 0;
              ::signal(SIGTERM, [](int) { count = count + 1; });
              if (!install_points(FakeProcess(Variables{{"UNBROKEN_KILL", "test.b:2:term"}})).ok()) return 1;
              pass_points();
              return count == 1 ? 0 : 2;
            }),
            0);
}

TEST(Points, StopLeavesTheProcessStopped) {
  const TemporaryDirectory directory;
  const std::string log = directory / "log";
  const pid_t pid = start_drilled({{"UNBROKEN_KILL", "test.b:1:stop"}, {"UNBROKEN_POINT_LOG", log}});
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(content(log), "test.a\ntest.b\n");
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  EXPECT_EQ(end_of(pid), 0);
  EXPECT_EQ(content(log), "test.a\ntest.b\ntest.a\ntest.b\ntest.a\ntest.b\n");
}

TEST(Points, LeaveForksAlone) {
  EXPECT_EQ(run_in_child([] {
              if (!install_points(FakeProcess(Variables{{"UNBROKEN_KILL", "test.a:1:kill"}})).ok()) return 1;
              return run_in_child(pass_points);
            }),
            0);
}

TEST(Points, RefuseWhatTheyDoNotUnderstand) {
  for (const char* kill : {"test.a", "test.a:1", "test.a:0:kill", "test.a:x:kill", "test.a:1:pause",
                           ":1:kill", "test.a:1:kill:more", "test.a:-1:kill"}) {
    const auto installed = install_points(FakeProcess(Variables{{"UNBROKEN_KILL", kill}}));
    ASSERT_TRUE(installed.is(Code::bad_argument)) << kill;
    EXPECT_THAT(installed.error().what(), HasSubstr("UNBROKEN_KILL"));
  }
  EXPECT_TRUE(install_points(FakeProcess(Variables{{"UNBROKEN_POINT_LOG", "/no/such/folder/log"}}))
                  .is(Code::not_found));
  EXPECT_TRUE(install_points(FakeProcess(Variables{})).ok());
  EXPECT_TRUE(install_points(FakeProcess(Variables{{"UNBROKEN_KILL", ""}, {"UNBROKEN_POINT_LOG", ""}})).ok());
  EXPECT_EQ(point_hook.load(), nullptr) << "nothing was installed";
}

}  // namespace
}  // namespace unbroken
