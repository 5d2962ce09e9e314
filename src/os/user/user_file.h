#pragma once
// Files that a person names on the command line: settings, traces, charts. Any path, any symbolic link;
// nothing of a run is read or written this way.
#include <string>
#include <string_view>

#include "base/result.h"

namespace unbroken {

/// Errors: not_found, unavailable (with the system's reason), bad_argument (a directory, or above
/// `bytes_max`).
Result<std::string> read_user_file(const std::string& path, std::size_t bytes_max = std::size_t{64} << 20);
/// Replaces what is there. Durability: none.   Errors: unavailable, no_space.
Result<> write_user_file(const std::string& path, std::string_view text);

}  // namespace unbroken
