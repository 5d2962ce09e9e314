#include "os/worker_guard.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "os/errno.h"

namespace unbroken {
namespace {

std::atomic<int> owner_pid{0};

void on_term(int, siginfo_t* info, void*) {
  if (info != nullptr && info->si_pid == owner_pid.load()) ::_exit(0);
}

}  // namespace

Result<> guard_worker(const WorkerGuard& guard) {
  owner_pid.store(guard.owner);
  struct sigaction action{};
  action.sa_sigaction = on_term;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  if (::sigaction(SIGTERM, &action, nullptr) != 0) return errno_error(errno, "sigaction", "a worker");
  if (guard.dies_with_owner) {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno_error(errno, "prctl", "a worker");
    if (::getppid() != guard.owner) ::_exit(1);  // it ended before that took hold
  }
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  if (::pthread_sigmask(SIG_UNBLOCK, &term, nullptr) != 0)
    return errno_error(errno, "pthread_sigmask", "a worker");
  return Done{};
}

}  // namespace unbroken
