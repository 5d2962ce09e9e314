#pragma once
// A command looks once and ends, and a pin lapses only while somebody watches: what earlier commands of this
// user saw on this machine is kept in a file of the user, never in the run.
#include "cli/look.h"

namespace unbroken {

/// Appends UNPIN for readers whose heartbeat has stood still since an earlier command looked. Where the file
/// cannot be kept, none lapses. Errors: those of appending.
Result<> let_pins_lapse(Look& look);

}  // namespace unbroken
