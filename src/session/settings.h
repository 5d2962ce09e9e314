#pragma once
// What a user asks for, as the engine's options.
#include "engine/engine.h"
#include "session/runtime.h"
#include "unbroken/session.h"

namespace unbroken {

/// Errors: bad_argument, naming the option.
Result<EngineOptions> engine_options(Runtime& runtime, const RunOptions& options);

/// Liveness only: a storage that answers nothing for this long ends the call.
inline constexpr Duration kCallLimit = std::chrono::hours(12);

}  // namespace unbroken
