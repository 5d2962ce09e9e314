#include "commit/decide.h"

#include <fmt/format.h>

#include "base/mutant.h"

namespace unbroken {

namespace {

Error superseded(const History& history, const OpenRef& mine) {
  const Attempt* newest = history.newest_attempt();
  return Error(
      Code::fenced,
      fmt::format(
          "attempt {} (process {} on {}) took over this run; the attempt opened in slot {} stands down",
          newest->open.attempt, newest->open.owner.pid, newest->open.owner.host, mine.slot));
}

}  // namespace

Decide commit_decision(OpenRef mine, Commit commit, CommitFate& fate) {
  return [mine, commit = std::move(commit), &fate](const History& history) -> Result<Decision> {
    if (!history.is_newest(mine.slot, mine.sha256) && !UNBROKEN_MUTANT("no_fence"))
      return superseded(history, mine);
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
}

Decide abort_decision(OpenRef mine, Abort abort) {
  return [mine, abort = std::move(abort)](const History& history) -> Result<Decision> {
    if (!history.is_newest(mine.slot, mine.sha256)) return superseded(history, mine);
    if (history.find(abort.save) || history.is_aborted(abort.save)) return Decision(Stand{});
    return Decision(Fact(abort));
  };
}

}  // namespace unbroken
