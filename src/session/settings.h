#pragma once
// What a user asks for, as the engine's options.
#include "engine/engine.h"
#include "session/runtime.h"
#include "unbroken/session.h"

namespace unbroken {

/// Before anything is opened or made. Errors: bad_argument, naming the option; those of opening a tap.
Result<EngineOptions> engine_options(const Process& process, const RunOptions& options);
/// What only the opened directory knows: whether it is fit, and where checkpoints come from.
void add_runtime(EngineOptions& engine, Runtime& runtime);
/// Errors: bad_argument.
Result<> check_tag_name(std::string_view tag);
/// How the directory is opened.
RuntimeOptions runtime_options(const RunOptions& options);

/// Liveness only: a storage that answers nothing for this long ends the call.
inline constexpr Duration kCallLimit = std::chrono::hours(12);

}  // namespace unbroken
