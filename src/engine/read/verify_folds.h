#pragma once
// What is wrong with the folds of a journal. Nothing of it is worse than slow: a start that cannot use one
// reads the records.
#include <vector>

#include "engine/seams.h"
#include "format/verify.h"
#include "journal/read_journal.h"

namespace unbroken {

/// `audited` is what Purpose::audit came to: every SUMMARY against the records, and the objects that are
/// kept. Errors: as look_at_run().
Result<std::vector<Damage>> verify_folds(const Seams& seams, const JournalRead& audited, const Deadline& by);

}  // namespace unbroken
