#pragma once
// Which checkpoints may go: rule R7, a pure function of the journal's prefix.
#include <string>
#include <vector>

#include "journal/history.h"

namespace unbroken {

/// Where a checkpoint stands on a prefix.
struct Standing {
  const Checkpoint* checkpoint;  ///< of the history, which has to outlive this
  bool is_on_lineage;
  /// What keeps it, as `ls --json` prints it: "last" (fewer than keep_last newer ones, or too few verified
  /// ones would be left), "resume", "pin". Empty: it may be condemned.
  std::vector<std::string> kept_by;
};
/// Of every checkpoint that is not condemned, in the order of the journal.
std::vector<Standing> standings(const History& history);

/// The oldest checkpoint for which INTENT may be appended on exactly this prefix; nullopt: none.
/// R7: no live pin; not the resume point of the newest OPEN while that attempt has no COMMIT; at least
/// keep_last good ones on the lineage newer than it; and after it is gone at least verified_min good ones
/// that are verified. A save with non-finite parameters, or one on another tier than the run's own storage,
/// does not count. Quarantined and abandoned ones obey the same counts.
std::optional<SaveId> next_victim(const History& history);

/// May `save` be condemned on this prefix?
bool may_condemn(const History& history, const SaveId& save);

}  // namespace unbroken
