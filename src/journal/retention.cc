#include "journal/retention.h"

#include <algorithm>

#include "base/mutant.h"

namespace unbroken {

namespace {

bool counts(const Checkpoint& c) {
  return c.is_good() && c.commit.health == kHealthOk && c.commit.tier == kRunTier;
}

/// Newest first, as a lineage is.
bool holds(const std::vector<const Checkpoint*>& sorted, const Checkpoint& c) {
  return std::binary_search(sorted.begin(), sorted.end(), &c,
                            [](const Checkpoint* a, const Checkpoint* b) { return a->slot > b->slot; });
}

/// Rule R7 on one prefix; the lineage is walked once for any number of questions.
class Retention {
 public:
  explicit Retention(const History& history)
      : history_(history), resume_(history.protected_resume()), lineage_(history.lineage()) {
    for (const Checkpoint* c : candidates()) {
      if (!counts(*c)) continue;
      counting_.push_back(c);
      if (is_verified(*c)) ++verified_;
    }
  }

  bool is_on_lineage(const Checkpoint& c) const { return holds(lineage_, c); }

  /// What forbids INTENT(c); empty: it may be appended. Not for one that is condemned already.
  std::vector<std::string> kept_by(const Checkpoint& c) const {
    std::vector<std::string> reasons;
    const bool is_verified_enough =
        verified_without(c) >= history_.policy().verified_min || UNBROKEN_MUTANT("verified_min_zero");
    if (newer_than(c) < history_.policy().keep_last || !is_verified_enough) reasons.emplace_back("last");
    if (resume_ == c.commit.save && !UNBROKEN_MUTANT("resume_unprotected")) reasons.emplace_back("resume");
    if (!c.pins.empty()) reasons.emplace_back("pin");
    return reasons;
  }

 private:
  /// As only the lineage counts, the newest attempt's resume point has nothing newer before its first COMMIT:
  /// the planted fault forgets both.
  std::vector<const Checkpoint*> candidates() const {
    if (!UNBROKEN_MUTANT("resume_unprotected")) return lineage_;
    std::vector<const Checkpoint*> all;
    for (const Checkpoint& c : history_.checkpoints()) all.insert(all.begin(), &c);
    return all;
  }
  static bool is_verified(const Checkpoint& c) { return c.verified.contains(std::string(kRunTier)); }
  std::size_t newer_than(const Checkpoint& c) const {  // newest first, so they are a prefix
    const auto end = std::partition_point(counting_.begin(), counting_.end(),
                                          [&](const Checkpoint* other) { return other->slot > c.slot; });
    return static_cast<std::size_t>(end - counting_.begin());
  }
  std::size_t verified_without(const Checkpoint& c) const {
    return verified_ - (is_verified(c) && holds(counting_, c) ? 1 : 0);
  }

  const History& history_;
  const std::optional<SaveId> resume_;
  const std::vector<const Checkpoint*> lineage_;  // newest first, and so is:
  std::vector<const Checkpoint*> counting_;
  std::size_t verified_ = 0;
};

}  // namespace

std::vector<Standing> standings(const History& history) {
  const Retention retention(history);
  std::vector<Standing> out;
  for (const Checkpoint& c : history.checkpoints())
    if (!c.is_intended) out.push_back({&c, retention.is_on_lineage(c), retention.kept_by(c)});
  return out;
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
