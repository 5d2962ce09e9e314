#pragma once
// What can still be said of a run whose journal cannot be folded: which slots are wrong and how, and which
// checkpoints lie there whole all the same. Nothing is written, and nothing of it is believed by a start.
#include <optional>
#include <string>
#include <vector>

#include "engine/seams.h"
#include "journal/history.h"
#include "restore/read_save.h"

namespace unbroken {

/// A save that a manifest in data/ describes.
struct LeftSave {
  Commit commit;               ///< from the journal; else what the manifest says of itself
  bool is_in_journal = false;  ///< in the part that can be read, and not removed
  bool is_quarantined = false;
  ReadSave::Found found;
  bool is_whole() const { return found.state && found.damage.empty() && found.unread.empty(); }
};

struct BrokenJournal {
  std::vector<Damage> errors;  ///< of the journal, in order of slots; not empty
  History prefix;              ///< what folds before the first of them
  std::uint64_t bytes_read = 0;
  std::optional<std::uint64_t>
      voidable;                 ///< the last slot is junk, which a VOID after it can pass (rule R13)
  std::vector<LeftSave> saves;  ///< newest first
};

/// `at`: only of what it means; empty: of all. Errors: bad_argument (no such thing as `at`), unsupported,
/// unavailable, late, stopped.
Result<BrokenJournal> examine_broken_journal(const Seams& seams, const std::string& at, const Deadline& by);

}  // namespace unbroken
