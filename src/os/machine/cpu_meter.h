#pragma once
// The meter of this machine: the clocks of its threads, and not of the process, which does other things too.
// What the kernel does on threads of its own is in none of them.
#include <memory>

#include "world/cpu_meter.h"
#include "world/executor.h"

namespace unbroken {

std::shared_ptr<CpuMeter> make_cpu_meter();

/// `task` as part of what the calling thread does: counted where that is.
Task metered(Task task);

}  // namespace unbroken
