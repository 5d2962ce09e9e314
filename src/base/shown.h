#pragma once
// An error as a person is shown it.
#include <string>

#include "base/result.h"

namespace unbroken {

/// Its message in one line, as printable() shows text; one of what does not fit each other has a line for
/// each difference.
std::string shown(const Error& error);

}  // namespace unbroken
