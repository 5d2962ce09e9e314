#include "cli/interrupts.h"

#include <signal.h>

#include <array>
#include <atomic>

namespace unbroken {

namespace {

std::atomic<int> came{0};
constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, 3> previous{};

void note(int signal) {
  came.store(signal);
}

}  // namespace

Interrupts::Interrupts() {
  struct sigaction action{};
  action.sa_handler = note;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &previous[i]);
}

Interrupts::~Interrupts() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &previous[i], nullptr);
}

bool Interrupts::has_come() {
  return came.load() != 0;
}

void Interrupts::die() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(came.load(), &action, nullptr);
  ::raise(came.load());
}

}  // namespace unbroken
