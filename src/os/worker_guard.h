#pragma once
// A worker process of a trainer (one that loads data) lives as long as the trainer wants it: a SIGTERM that
// is sent to everybody must not take it away while the trainer finishes its step and saves.
#include "base/result.h"

namespace unbroken {

struct WorkerGuard {
  int owner = 0;                 ///< pid of the trainer
  bool dies_with_owner = false;  ///< also killed when the thread that made this process ends
};

/// In the worker: a SIGTERM from its owner ends it with status 0, any other is ignored and interrupts
/// nothing; then SIGTERM is unblocked, so that whoever made the process can have it blocked until here. What
/// the worker executes has the default again.   Errors: unavailable.   Threads: the one that goes on.
Result<> guard_worker(const WorkerGuard& guard);

}  // namespace unbroken
