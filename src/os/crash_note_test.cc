#include "os/crash_note.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "os/test_support.h"

namespace unbroken {
namespace {

/// How a child ended that did this; nobody's handlers stand in it, a sanitizer's neither.
int in_a_child(const std::function<void()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGABRT}) (void)::signal(signal, SIG_DFL);
    act();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(CrashNote, TellsOfACrashAndDiesOfItAllTheSame) {
  const TemporaryDirectory folder;
  for (const int signal : {SIGSEGV, SIGABRT})
    EXPECT_EQ(in_a_child([&] {
                const CrashNote note(folder.path(), "metrics/crashes", "abc");
                ::raise(signal);
              }),
              signal);
  EXPECT_EQ(text_of(folder.path() + "/metrics/crashes"), "abc 11\nabc 6\n");
}

TEST(CrashNote, TellsOfNothingElse) {
  const TemporaryDirectory folder;
  EXPECT_EQ(in_a_child([&] {
              const CrashNote note(folder.path(), "metrics/crashes", "abc");
              ::raise(SIGKILL);
            }),
            SIGKILL);
  EXPECT_EQ(in_a_child([&] {
              {
                const CrashNote note(folder.path(), "metrics/crashes", "abc");
              }
              ::raise(SIGSEGV);
            }),
            SIGSEGV);
  EXPECT_EQ(in_a_child([&] {
              const CrashNote note(folder.path(), "metrics/crashes", "abc");
              EXPECT_EQ(in_a_child([] { ::raise(SIGSEGV); }), SIGSEGV);
            }),
            0);
  EXPECT_NE(::access((folder.path() + "/metrics").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace unbroken
