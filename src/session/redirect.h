#pragma once
// Where a run lives: what the user says, or what UNBROKEN_DIR says instead.
#include <string>
#include <string_view>

#include "world/process.h"

namespace unbroken {

/// `directory`, or UNBROKEN_DIR for the first directory of this process, UNBROKEN_DIR.<k>.<last component>
/// for the k-th. A directory that was named before stays where it is. Threads: any.
std::string redirected(const Process& process, std::string_view directory);

}  // namespace unbroken
