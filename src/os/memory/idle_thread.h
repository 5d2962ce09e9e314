#pragma once
// A thread that works when nobody else wants the processor: of the lowest priority, not of the idle class,
// which could be kept from running for seconds while it holds a lock of the kernel that others wait for.
#include <functional>
#include <thread>

#include "os/fork_guard.h"

namespace unbroken {

class IdleThread {
 public:
  /// Calls `work` until it returns false. Where the system gives no thread, nothing is called.
  explicit IdleThread(std::function<bool()> work);
  /// Waits for the call that is running.
  ~IdleThread();
  IdleThread(const IdleThread&) = delete;
  IdleThread& operator=(const IdleThread&) = delete;

 private:
  std::jthread thread_;
  const ForkGuard guard_;
};

}  // namespace unbroken
