#pragma once
// Fencing (rule R6): the newest OPEN owns the run; whoever was the owner before appends nothing more.
#include <cstdint>

#include "journal/append.h"

namespace unbroken {

/// `then`, on every prefix in which the OPEN with this slot and digest is the newest.
/// Errors: fenced, naming who took over; what `then` says.
Decide while_newest(std::uint64_t open_slot, const Sha256& open_digest, Decide then);

}  // namespace unbroken
