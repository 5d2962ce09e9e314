#include "engine/start/owner.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace unbroken {

Owner this_owner(const Seams& seams) {
  const ProcessIdentity me = seams.process.self();
  const StoreIdentity where = seams.store.identity();
  Owner owner{.job = {},
              .host = me.host,
              .boot_id = me.boot_id,
              .pid_namespace = me.pid_namespace,
              .pid = me.pid,
              .start_ticks = me.start_ticks,
              .device = where.device,
              .inode = where.inode};
  for (const char* name : {"SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "UNBROKEN_JOB"}) {
    if (const auto value = seams.process.env(name); value && !value->empty()) {
      owner.job = fmt::format("{}={}", name, value->substr(0, 200));
      if (const auto task = seams.process.env("SLURM_PROCID"); task && owner.job.starts_with("SLURM"))
        owner.job += " task " + task->substr(0, 20);
      break;
    }
  }
  return owner;
}

ProcessIdentity identity_of(const Owner& owner) {
  return {owner.host, owner.boot_id, owner.pid_namespace, owner.pid, owner.start_ticks};
}

Liveness liveness_of_owner(const Seams& seams, const Attempt& attempt) {
  const Owner& owner = attempt.open.owner;
  const StoreIdentity where = seams.store.identity();
  if (owner.device != where.device || owner.inode != where.inode) return Liveness::unknown;
  return seams.process.liveness(identity_of(owner));
}

Result<> check_owner(const Seams& seams, const History& history, const std::optional<Hint>& hint,
                     bool is_takeover) {
  const Attempt* newest = history.newest_attempt();
  if (newest == nullptr || is_takeover || closed_open(history, hint)) return Done{};
  const Owner& owner = newest->open.owner;
  if (identity_of(owner) == seams.process.self()) return Done{};
  if (liveness_of_owner(seams, *newest) != Liveness::alive) return Done{};
  return Error(Code::bad_argument, fmt::format("attempt {} of this run is alive: process {} on {}{}{}: end "
                                               "it first, or start with takeover=True",
                                               newest->open.attempt, owner.pid, printable(owner.host),
                                               owner.job.empty() ? "" : ", ", printable(owner.job)))
      .next(fmt::format("kill {}", owner.pid));
}

std::optional<std::uint64_t> closed_open(const History& history, const std::optional<Hint>& hint) {
  const Attempt* newest = history.newest_attempt();
  const bool is_closed = newest != nullptr && hint && hint->closed == newest->slot;
  return is_closed ? hint->closed : std::nullopt;
}

void say_closed(const Seams& seams, const History& history, std::optional<std::uint64_t> open,
                const Deadline& by) {
  if (!open) return;
  const Hint hint{history.genesis()->run, history.next_slot() - 1, history.head(), open};
  (void)seams.store.advise(kHintKey, as_bytes(encode_hint(hint)), by);
}

}  // namespace unbroken
