#pragma once
// The file that a command leaves when it has finished, as digests: what two runs have to have alike.
#include <string>

#include "drill/tap.h"

namespace unbroken {

/// Tensors by dtype, shape and digest, everything else by value; where a text holds `directory` it says {dir}
/// instead. Reads what `unbroken import` reads, in the same sandbox.
/// Errors: not_found, corrupt, unsupported, unavailable, with the file's name.
Result<TapStep> read_final_state(const std::string& path, const std::string& directory);

}  // namespace unbroken
