#pragma once
// No signals for threads of ours: they belong to the threads of the program that uses us.
#include <signal.h>

namespace unbroken {

/// While it lives, threads that are started take no signals. Those that a thread raises by its own fault stay
/// open: a blocked one would end the process without a word.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t set;
    ::sigfillset(&set);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      ::sigdelset(&set, fault);
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace unbroken
