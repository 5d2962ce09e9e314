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
  /// ones would be left), "best:loss", "every:100", "tag:NAME", "resume", "pin". Empty: it may be condemned.
  std::vector<std::string> kept_by;
};
/// Of every checkpoint that is not condemned, in the order of the journal.
std::vector<Standing> standings(const History& history);

/// Of one; nothing where it is condemned or was never there.
std::vector<std::string> kept_by(const History& history, const SaveId& save);
/// True for a reason that a person may overrule; false for a pin, a tag, and what is resumed from.
bool is_waived_by_force(const std::string& reason);

/// The oldest checkpoint for which INTENT may be appended on exactly this prefix; nullopt: none.
/// R7: no live pin, no tag; not the best, on any lineage; on the lineage, not of a step that is kept for its
/// number; not the resume point of the newest OPEN while that attempt has no COMMIT; at least
/// keep_last good ones on the lineage newer than it; and after it is gone at least verified_min good ones
/// that are verified. A save with non-finite parameters, or one on another tier than the run's own storage,
/// does not count. Quarantined and abandoned ones obey the same counts; for one with non-finite parameters
/// its like count too, so that of a training that diverged the newest stay and no more.
std::optional<SaveId> next_victim(const History& history);

/// The best by this rule, on any lineage, the older one of two alike; null: none has a finite value of the
/// metric. What does not count in R7 is never the best.
const Checkpoint* best(const History& history, const BestRule& rule);

/// May `save` be condemned on this prefix?
bool may_condemn(const History& history, const SaveId& save);

}  // namespace unbroken
