#pragma once
// Work on bytes that nobody vouches for, in a process that can do nothing but compute.
//
// The child keeps the files it is given, for reading, and one pipe. Before it looks at a byte it closes
// everything else, gives up every privilege (no_new_privs), takes limits on memory and processor time, and
// installs a seccomp filter: only reads, the pipe, memory that is not executable, and its own end are left.
// Any other system call (open, socket, fork, exec, ...) kills it. Where the kernel has no seccomp, nothing
// runs.
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace unbroken {

struct SandboxLimits {
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  ///< beyond what this process has now
  std::uint64_t output_bytes = std::uint64_t{3} << 30;
  unsigned cpu_s = 600;
};

/// Runs `work` in a forked child; what it returns. `files` stay open there under their numbers. It is tried
/// once, and nothing else is tried after it.
/// Errors:  corrupt (the child was ended by its limits or by the filter, or crashed: the bytes are to blame);
///          unsupported (no seccomp here); unavailable; what `work` returns as an error.
/// Threads: call it before any thread is started: a fork copies no other thread.
Result<std::string> run_in_sandbox(std::span<const int> files,
                                   const std::function<Result<std::string>()>& work,
                                   const SandboxLimits& limits = {});

}  // namespace unbroken
