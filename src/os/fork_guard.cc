#include "os/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace unbroken {
namespace {

std::atomic<std::uint64_t> generation{0};

void count_fork() {
  generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::uint64_t fork_generation() noexcept {
  static const int registered = pthread_atfork(nullptr, nullptr, count_fork);
  static_cast<void>(registered);
  return generation.load(std::memory_order_relaxed);
}

}  // namespace unbroken
