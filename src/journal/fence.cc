#include "journal/fence.h"

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/utf8.h"

namespace unbroken {

Decide while_newest(std::uint64_t open_slot, const Sha256& open_digest, Decide then) {
  return [open_slot, open_digest, then = std::move(then)](const History& history) -> Result<Decision> {
    if (history.is_newest(open_slot, open_digest) || UNBROKEN_MUTANT("no_fence")) return then(history);
    const Attempt* newest = history.newest_attempt();
    return Error(Code::fenced,
                 fmt::format("attempt {} (process {} on {}) took over this run; the attempt opened in slot "
                             "{} stands down",
                             newest->open.attempt, newest->open.owner.pid, printable(newest->open.owner.host),
                             open_slot));
  };
}

}  // namespace unbroken
