#include "journal/retention.h"

#include <algorithm>

#include "base/mutant.h"

namespace unbroken {

namespace {

bool counts(const Checkpoint& c) {
  return c.is_good() && c.commit.health == "ok";
}

}  // namespace

bool may_condemn(const History& history, const SaveId& save) {
  const Checkpoint* victim = history.find(save);
  if (victim == nullptr || victim->is_intended || !victim->pins.empty()) return false;
  if (history.protected_resume() == save && !UNBROKEN_MUTANT("resume_unprotected")) return false;
  std::uint32_t newer = 0, verified = 0;
  for (const Checkpoint* c : history.lineage()) {
    if (c == victim || !counts(*c)) continue;
    if (c->slot > victim->slot) ++newer;
    if (!c->verified.empty()) ++verified;
  }
  if (newer < history.policy().keep_last) return false;
  return verified >= history.policy().verified_min || UNBROKEN_MUTANT("verified_min_zero");
}

std::optional<SaveId> next_victim(const History& history) {
  for (const Checkpoint& c : history.checkpoints())
    if (may_condemn(history, c.commit.save)) return c.commit.save;
  return std::nullopt;
}

std::vector<std::string> kept_by(const History& history, const SaveId& save) {
  std::vector<std::string> reasons;
  const Checkpoint* kept = history.find(save);
  if (kept == nullptr || kept->is_intended) return reasons;
  if (!kept->pins.empty()) reasons.emplace_back("pin");
  if (history.protected_resume() == save) reasons.emplace_back("resume");
  std::uint32_t rank = 0;
  for (const Checkpoint* c : history.lineage()) {
    if (!counts(*c)) continue;
    if (c == kept && rank < history.policy().keep_last) reasons.insert(reasons.begin(), "last");
    ++rank;
  }
  if (reasons.empty() && !may_condemn(history, save)) reasons.emplace_back("verified");
  return reasons;
}

}  // namespace unbroken
