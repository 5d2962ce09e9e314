#pragma once
// What may be appended about a save, decided on the exact prefix that the record extends (rules R3, R6, R20).
#include <string>

#include "format/receipt.h"
#include "journal/append.h"

namespace unbroken {

/// What became of the wish to commit.
enum class CommitFate : std::uint8_t {
  appended,  ///< COMMIT is the newest record
  already,   ///< this very save was committed before (an answer that was lost)
  dropped,   ///< a later step was committed, or this try was aborted
};

/// Errors: fenced where the newest OPEN is not `mine`. Writes why it stood down to `fate`.
Decide commit_decision(OpenRef mine, Commit commit, CommitFate& fate);
/// ABORT, while the save is not settled.
Decide abort_decision(Abort abort);

}  // namespace unbroken
