#include "os/worker_guard.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace unbroken {
namespace {

/// The end of a guarded child, to which `sender` does something.
template <class Sender>
int status_after(Sender sender) {
  int ready[2];
  EXPECT_EQ(::pipe(ready), 0);
  const pid_t owner = ::getpid();
  const pid_t worker = ::fork();
  if (worker == 0) {
    if (!guard_worker({.owner = owner, .dies_with_owner = true}).ok()) ::_exit(3);
    ::kill(::getpid(), SIGTERM);  // of somebody who is not the owner
    static_cast<void>(::write(ready[1], "r", 1));
    for (;;) ::pause();
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  sender(worker);
  int status = 0;
  EXPECT_EQ(::waitpid(worker, &status, 0), worker);
  ::close(ready[0]);
  ::close(ready[1]);
  return status;
}

TEST(WorkerGuard, IgnoresATermThatIsNotFromItsOwner) {
  const int status = status_after([](pid_t worker) {
    const pid_t other = ::fork();
    if (other == 0) {
      ::kill(worker, SIGTERM);
      ::_exit(0);
    }
    ::waitpid(other, nullptr, 0);
    EXPECT_EQ(::waitpid(worker, nullptr, WNOHANG), 0);  // still there
    ::kill(worker, SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(WorkerGuard, EndsAtATermOfItsOwner) {
  const int status = status_after([](pid_t worker) { ::kill(worker, SIGTERM); });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace unbroken
