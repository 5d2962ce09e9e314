#pragma once
// Where a run may be begun.
#include <string>

#include "base/result.h"

namespace unbroken {

/// Refuses the root of the file system, a symbolic link on the way that leads nowhere, and a place inside
/// another run, whose names are its own; a run that is there already stays one. Errors: bad_argument.
Result<> check_run_place(const std::string& directory);

}  // namespace unbroken
