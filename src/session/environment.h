#pragma once
// The variables UNBROKEN_* of a process: each has a value that can be used, or the start is refused. An empty
// one counts as not set.
#include <optional>

#include "base/result.h"
#include "engine/seams.h"
#include "os/machine/io_class.h"
#include "os/os_fs.h"
#include "world/process.h"

namespace unbroken {

/// Errors: bad_argument, naming the variable, its value and an example. Creates nothing.
Result<> check_environment(const Process& process);

/// The same; then what UNBROKEN_KILL and UNBROKEN_POINT_LOG ask for is there, once a process: their passes
/// are counted over all its runs. Errors: those, and those of opening the log.
Result<> use_environment(const Process& process);

/// UNBROKEN_PIN_LASTS, of an environment that was checked.
Duration pin_lasts(const Process& process);
/// UNBROKEN_IO, of an environment that was checked. By itself: threads, which are as fast as io_uring.
WriteEngine write_engine(const Process& process);
/// UNBROKEN_IO_CLASS, of an environment that was checked.
IoClass io_class(const Process& process);
/// UNBROKEN_STEPS, of an environment that was checked.
std::optional<std::uint64_t> steps_cap(const Process& process);

}  // namespace unbroken
