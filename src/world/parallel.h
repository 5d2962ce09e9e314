#pragma once
// Splits work over a lane. Where no worker is free the caller does it, so it goes on in any case.
#include <cstddef>
#include <cstdint>
#include <functional>

#include "world/executor.h"

namespace unbroken {

enum class Caller : std::uint8_t {
  works,      ///< beside the lane
  stands_in,  ///< until a worker of the lane begins: for work that belongs where the lane is
};

/// Calls body(0) .. body(count-1), each once, several at a time; returns when all calls are over. After the
/// first error the rest is skipped. Bodies must end by themselves.
/// Errors:  the first error of a body; bug where one throws.
/// Threads: any; bodies run on the caller's thread and on the lane.
Result<> parallel_for(Executor& executor, Lane lane, std::size_t count,
                      const std::function<Result<>(std::size_t)>& body, Caller caller = Caller::works);

}  // namespace unbroken
