#pragma once
// How a thread's reads and writes stand beside those of others (ioprio_set(2)). Schedulers of disks heed it
// (bfq, mq-deadline), "none" and remote storage do not.
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"

namespace unbroken {

enum class IoClass : std::uint8_t {
  normal,  ///< as the process was started
  low,     ///< best effort, the lowest level
  idle,    ///< when nobody else wants the disk
};

/// Until what comes back is dropped, by the same thread, what this thread reads and writes is of that class.
using GiveWay = std::function<std::shared_ptr<void>()>;

/// Empty for `normal`. Errors: unsupported, where the system does not let this thread choose.
Result<GiveWay> give_way(IoClass wanted);

}  // namespace unbroken
