#include "os/stop_signal.h"

#include <signal.h>

#include <atomic>
#include <mutex>

namespace unbroken {

namespace {

std::mutex mutex;  // of what follows, but for the handler
unsigned watching = 0;
std::atomic<bool> raised{false};
struct sigaction previous{};

void on_term(int signal) {
  if (!raised.exchange(true)) return;
  // Asked twice: what would have happened without us.
  ::sigaction(SIGTERM, &previous, nullptr);
  ::raise(signal);
}

}  // namespace

StopSignal::StopSignal() {
  const std::lock_guard lock(mutex);
  if (watching++ > 0) return;
  raised.store(false);
  struct sigaction action{};
  action.sa_handler = on_term;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, &previous);
}

StopSignal::~StopSignal() {
  const std::lock_guard lock(mutex);
  if (--watching > 0) return;
  struct sigaction there{};
  ::sigaction(SIGTERM, nullptr, &there);
  // Somebody else's is left alone.
  if ((there.sa_flags & SA_SIGINFO) == 0 && there.sa_handler == on_term)
    ::sigaction(SIGTERM, &previous, nullptr);
}

bool StopSignal::is_raised() const noexcept {
  return raised.load();
}

}  // namespace unbroken
