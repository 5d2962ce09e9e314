#pragma once
// Which part of a training did not come back? Asked once a drill has its verdict: the life that differs is
// led again, and so is the undisturbed run, both with a witness in the process (witness.py).
#include <string>
#include <string_view>
#include <vector>

#include "cli/drill/drill_run.h"

namespace unbroken {

/// Names of what was not restored; empty where that cannot be told. Of a command without Unbroken that trains
/// with PyTorch. Errors: stopped (Ctrl-C).
Result<std::vector<std::string>> find_forgotten(const DrillOptions& options, const DrillResult& result);

/// What Python runs before the training; RECORD in it is "{record}", STATES "{states}".
std::string_view witness_text();

}  // namespace unbroken
