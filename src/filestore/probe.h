#pragma once
// Is this storage fit for a journal? Asked at every start, so it costs a few small files.
#include "base/result.h"
#include "world/clock.h"
#include "world/store.h"

namespace unbroken {

/// What it is called there, before a nonce.
inline constexpr std::string_view kProbeName = "probe";

/// Creates an object in the journal's own folder, creates it again, reads it back, and removes it.
/// Errors: unsupported where a create can replace, cannot be told from a failure, or is not there at all (the
/// text names the way out); else what the storage said. Leaves nothing but, after a kill, temporary names.
/// Whoever begins the run meanwhile may sweep the object away: then it is tried again with another one.
/// Source: protocol rule R14.
Result<> probe_store(Store& store, Random& random, const Deadline& by);

}  // namespace unbroken
