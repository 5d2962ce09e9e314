#include "os/stop_signal.h"

#include <signal.h>

#include <atomic>

namespace unbroken {

namespace {

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
  raised.store(false);
  struct sigaction action{};
  action.sa_handler = on_term;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, &previous);
}

StopSignal::~StopSignal() {
  ::sigaction(SIGTERM, &previous, nullptr);
}

bool StopSignal::is_raised() const noexcept {
  return raised.load();
}

}  // namespace unbroken
