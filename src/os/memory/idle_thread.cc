#include "os/memory/idle_thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <stop_token>
#include <system_error>
#include <utility>

#include "os/signals_blocked.h"

namespace unbroken {

IdleThread::IdleThread(std::function<bool()> work) {
  constexpr int kLowest = 19;
  const SignalsBlocked blocked;
  try {
    thread_ = std::jthread([work = std::move(work)](const std::stop_token& stop) {
      ::pthread_setname_np(::pthread_self(), "unbroken-idle");
      // Of this thread alone (setpriority(2), "C library/kernel differences"). A wish.
      static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowest));
      while (!stop.stop_requested() && work()) {
      }
    });
  } catch (const std::system_error&) {
    // What it would have done is done by whoever needs it.
  }
}

IdleThread::~IdleThread() {
  if (guard_.is_child() && thread_.joinable()) thread_.detach();  // it is the parent's
}

}  // namespace unbroken
