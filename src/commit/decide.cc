#include "commit/decide.h"

#include <utility>

#include "base/mutant.h"
#include "journal/fence.h"

namespace unbroken {

Decide commit_decision(OpenRef mine, Commit commit, CommitFate& fate) {
  const auto decide = [commit = std::move(commit), &fate](const History& history) -> Result<Decision> {
    fate = CommitFate::already;
    if (history.find(commit.save)) return Decision(Stand{});
    fate = CommitFate::dropped;
    if (history.is_aborted(commit.save) && !UNBROKEN_MUTANT("s6_blind_to_abort")) return Decision(Stand{});
    const Attempt* newest = history.newest_attempt();
    const bool is_of_newest = newest != nullptr && newest->open.attempt == commit.save.attempt;
    if (is_of_newest && newest->last_commit && newest->last_commit->step >= commit.save.step)
      return Decision(Stand{});
    fate = CommitFate::appended;
    return Decision(Fact(commit));
  };
  return while_newest(mine.slot, mine.sha256, decide);
}

Decide abort_decision(Abort abort) {
  return [abort = std::move(abort)](const History& history) -> Result<Decision> {
    if (history.find(abort.save) || history.is_aborted(abort.save)) return Decision(Stand{});
    return Decision(Fact(abort));
  };
}

}  // namespace unbroken
