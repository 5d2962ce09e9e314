#include "restore/decide.h"

#include <algorithm>

#include <fmt/format.h>

#include "journal/fence.h"

namespace unbroken {

namespace {

/// Has the newest attempt come to nothing because what it resumes from is damaged?
bool is_in_vain(const History& history) {
  const auto resume = history.protected_resume();
  const Checkpoint* c = resume ? history.find(*resume) : nullptr;
  return c != nullptr && c->is_quarantined();
}

bool is_nothing_left(const History& history) {
  const auto& all = history.checkpoints();
  return std::none_of(all.begin(), all.end(), [](const Checkpoint& c) { return c.is_good(); });
}

Result<const Checkpoint*> choose_before(const History& history, const SaveId& save) {
  for (const Checkpoint* c : history.lineage())
    if (c->is_good() && c->commit.save != save) return c;
  return Error(Code::corrupt,
               fmt::format("the attempts before this one crashed while they loaded {0}, and there is none "
                           "before it: resume=\"{0}\" tries it again",
                           save.name()));
}

Error removed(const SaveId& save) {
  return {Code::not_found, fmt::format("checkpoint {} was removed by retention", save.name())};
}

}  // namespace

Result<Resume> choose_resume(const History& history, const At& at, bool is_fresh_allowed,
                             const std::optional<SaveId>& avoid) {
  Resume resume;
  resume.avoid = avoid;
  resume.at = at;
  const Attempt* newest = history.newest_attempt();
  if (newest != nullptr) resume.newest_open = newest->slot;
  resume.was_carried_out = at.kind != At::Kind::newest && newest != nullptr &&
                           newest->open.asked == at.text && !is_in_vain(history);
  const At effective = resume.was_carried_out ? At{} : at;
  if (!history.has_commits() && effective.kind == At::Kind::newest) return resume;
  auto chosen = choose(history, effective);
  if (chosen.ok() && effective.kind == At::Kind::newest && chosen.value()->commit.save == avoid)
    chosen = choose_before(history, *avoid);
  if (!chosen.ok() && !(is_fresh_allowed && is_nothing_left(history))) return std::move(chosen).error();
  if (chosen.ok()) resume.save = chosen.value()->commit.save;
  return resume;
}

std::size_t attempts_in_vain(const History& history) {
  const auto& all = history.attempts();
  if (all.empty() || !all.back().open.resume) return 0;
  const auto is_in_vain = [&](const Attempt& a) {
    return a.open.resume == all.back().open.resume && a.commits == 0;
  };
  const auto first = std::next(all.rbegin());
  return static_cast<std::size_t>(std::find_if_not(first, all.rend(), is_in_vain) - first);
}

Decide open_decision(Resume resume, bool is_fresh_allowed, Open open) {
  return [resume = std::move(resume), is_fresh_allowed,
          open = std::move(open)](const History& history) -> Result<Decision> {
    UNBROKEN_TRY(const Resume now, choose_resume(history, resume.at, is_fresh_allowed, resume.avoid));
    if (now.save != resume.save || now.newest_open != resume.newest_open) return Decision(Stand{});
    Open record = open;
    record.attempt = history.next_attempt();
    record.resume = resume.save;
    if (resume.at.kind != At::Kind::newest) record.asked = resume.at.text;
    return Decision(Fact(std::move(record)));
  };
}

Decide genesis_decision(Genesis genesis) {
  return [genesis = std::move(genesis)](const History& history) -> Result<Decision> {
    if (history.genesis()) return Decision(Stand{});
    return Decision(Fact(genesis));
  };
}

Decide verified_decision(Verified verified) {
  return [verified = std::move(verified)](const History& history) -> Result<Decision> {
    const Checkpoint* c = history.find(verified.save);
    const bool is_known = c != nullptr && c->verified.contains(verified.tier) && !c->is_quarantined();
    if (c == nullptr || c->is_intended || is_known) return Decision(Stand{});
    return Decision(Fact(verified));
  };
}

Decide quarantine_decision(Quarantine quarantine) {
  return [quarantine = std::move(quarantine)](const History& history) -> Result<Decision> {
    const Checkpoint* c = history.find(quarantine.save);
    if (c == nullptr || c->is_intended || c->is_quarantined()) return Decision(Stand{});
    return Decision(Fact(quarantine));
  };
}

Quarantine quarantine_of(const SaveId& save, const Damage& worst, std::string host, Nonce life) {
  return {.save = save,
          .tier = std::string(kRunTier),
          .object = worst.object,
          .expected = "whole",
          .seen = fmt::format("at byte {}: {}", worst.offset, worst.what),
          .host = std::move(host),
          .life = life};
}

Decide tag_decision(Tag tag) {
  return [tag = std::move(tag)](const History& history) -> Result<Decision> {
    const Checkpoint* c = history.find(tag.save);
    if (c == nullptr || c->is_intended) return removed(tag.save);
    if (c->tags.contains(tag.tag)) return Decision(Stand{});
    return Decision(Fact(tag));
  };
}

Decide untag_decision(Untag untag) {
  return [untag = std::move(untag)](const History& history) -> Result<Decision> {
    const Checkpoint* c = history.find(untag.save);
    if (c == nullptr) return removed(untag.save);
    if (!c->tags.contains(untag.tag)) return Decision(Stand{});
    return Decision(Fact(untag));
  };
}

Decide pin_decision(Pin pin) {
  return [pin](const History& history) -> Result<Decision> {
    const Checkpoint* c = history.find(pin.save);
    if (c == nullptr || c->is_intended)
      return Error(Code::vanished, fmt::format("checkpoint {} was removed by retention before it was pinned",
                                               pin.save.name()));
    return Decision(Fact(pin));
  };
}

Decide unpin_decision(Unpin unpin) {
  return [unpin](const History& history) -> Result<Decision> {
    const Checkpoint* c = history.find(unpin.save);
    if (c == nullptr || !c->pins.contains(unpin.pin)) return Decision(Stand{});
    return Decision(Fact(unpin));
  };
}

Decide policy_decision(OpenRef mine, Policy policy) {
  return while_newest(mine.slot, mine.sha256, [policy](const History& history) -> Result<Decision> {
    if (history.policy() == policy) return Decision(Stand{});
    return Decision(Fact(policy));
  });
}

}  // namespace unbroken
