#pragma once
// Who holds a run. This only stops accidents; safety is the journal's.
#include <cstdint>
#include <optional>

#include "engine/seams.h"
#include "journal/hint.h"
#include "journal/history.h"

namespace unbroken {

/// This process, this job, this directory.
Owner this_owner(const Seams& seams);

ProcessIdentity identity_of(const Owner& owner);

/// What can be seen from here of the process that opened this attempt; unknown on another host and in a copy
/// of the directory.
Liveness liveness_of_owner(const Seams& seams, const Attempt& attempt);

/// Refuses where the owner of the newest attempt can be seen alive on this machine, in this directory. Where
/// that cannot be decided (another host, a copied directory), where it said that it closed, and for this very
/// process: ok, the new OPEN fences it. Errors: bad_argument, naming the process.
Result<> check_owner(const Seams& seams, const History& history, const std::optional<Hint>& hint,
                     bool is_takeover);

/// Slot of the newest OPEN, where its owner said that it closed.
std::optional<std::uint64_t> closed_open(const History& history, const std::optional<Hint>& hint);
/// Says in the hint that the owner of this OPEN closed; does nothing without one. Who appends after that
/// overwrites the hint, and says it again. Advisory: without it the next start looks whether the owner is
/// alive.
void say_closed(const Seams& seams, const History& history, std::optional<std::uint64_t> open,
                const Deadline& by);

}  // namespace unbroken
