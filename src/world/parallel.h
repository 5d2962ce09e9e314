#pragma once
// Splits work over a lane. The caller works too, so it goes on even where no worker is free.
#include <cstddef>
#include <functional>

#include "world/executor.h"

namespace unbroken {

/// Calls body(0) .. body(count-1), each once, several at a time; returns when all calls are over. After the
/// first error the rest is skipped. Bodies must end by themselves.
/// Errors:  the first error of a body; bug where one throws.
/// Threads: any; bodies run on the caller's thread and on the lane.
Result<> parallel_for(Executor& executor, Lane lane, std::size_t count,
                      const std::function<Result<>(std::size_t)>& body);

}  // namespace unbroken
