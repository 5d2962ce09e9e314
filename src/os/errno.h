#pragma once
// What the system said, as an Error.
#include <string_view>

#include "base/error.h"

namespace unbroken {

/// "journal/7: fsync: EIO (Input/output error)"; without `path` where the caller names the object. ENOENT
/// not_found; ENOSPC, EDQUOT, EFBIG no_space; ELOOP (a symbolic link where none may be), ENOTDIR, EISDIR and
/// ENAMETOOLONG bad_argument; all others unavailable.
Error errno_error(int number, std::string_view call, std::string_view path = {}, Where at = Where::here());

}  // namespace unbroken
