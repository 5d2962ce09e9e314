#include "journal/retention.h"

#include <algorithm>

#include "base/mutant.h"

namespace unbroken {

namespace {

bool counts(const Checkpoint& c) {
  return c.is_good() && c.commit.health == "ok" && c.commit.tier == kRunTier;
}

/// Rule R7 on one prefix; the lineage is walked once for any number of questions.
class Retention {
 public:
  explicit Retention(const History& history) : history_(history), resume_(history.protected_resume()) {
    for (const Checkpoint* c : candidates()) {
      if (!counts(*c)) continue;
      counting_.push_back(c);
      if (is_verified(*c)) ++verified_;
    }
  }

  /// What forbids INTENT(c); empty: it may be appended. Not for one that is condemned already.
  std::vector<std::string> kept_by(const Checkpoint& c) const {
    std::vector<std::string> reasons;
    if (newer_than(c) < history_.policy().keep_last) reasons.emplace_back("last");
    if (verified_without(c) < history_.policy().verified_min && !UNBROKEN_MUTANT("verified_min_zero"))
      reasons.emplace_back("verified");
    if (resume_ == c.commit.save && !UNBROKEN_MUTANT("resume_unprotected")) reasons.emplace_back("resume");
    if (!c.pins.empty()) reasons.emplace_back("pin");
    return reasons;
  }

 private:
  /// As only the lineage counts, the newest attempt's resume point has nothing newer before its first COMMIT:
  /// the planted fault forgets both.
  std::vector<const Checkpoint*> candidates() const {
    if (!UNBROKEN_MUTANT("resume_unprotected")) return history_.lineage();
    std::vector<const Checkpoint*> all;
    for (const Checkpoint& c : history_.checkpoints()) all.insert(all.begin(), &c);
    return all;
  }
  static bool is_verified(const Checkpoint& c) { return c.verified.contains(std::string(kRunTier)); }
  std::size_t newer_than(const Checkpoint& c) const {  // newest first, so they are a prefix
    const auto end = std::find_if(counting_.begin(), counting_.end(),
                                  [&](const Checkpoint* other) { return other->slot <= c.slot; });
    return static_cast<std::size_t>(end - counting_.begin());
  }
  std::size_t verified_without(const Checkpoint& c) const {
    const bool is_counted = std::find(counting_.begin(), counting_.end(), &c) != counting_.end();
    return verified_ - (is_counted && is_verified(c) ? 1 : 0);
  }

  const History& history_;
  const std::optional<SaveId> resume_;
  std::vector<const Checkpoint*> counting_;  // of the lineage, newest first
  std::size_t verified_ = 0;
};

}  // namespace

std::vector<std::string> kept_by(const History& history, const SaveId& save) {
  const Checkpoint* c = history.find(save);
  if (c == nullptr || c->is_intended) return {};
  return Retention(history).kept_by(*c);
}

bool may_condemn(const History& history, const SaveId& save) {
  const Checkpoint* c = history.find(save);
  return c != nullptr && !c->is_intended && Retention(history).kept_by(*c).empty();
}

std::optional<SaveId> next_victim(const History& history) {
  const Retention retention(history);
  for (const Checkpoint& c : history.checkpoints())
    if (!c.is_intended && retention.kept_by(c).empty()) return c.commit.save;
  return std::nullopt;
}

}  // namespace unbroken
