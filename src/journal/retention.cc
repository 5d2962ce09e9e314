#include "journal/retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/mutant.h"

namespace unbroken {

namespace {

bool is_whole(const Checkpoint& c) {
  return c.is_good() && c.commit.tier == kRunTier;
}

bool counts(const Checkpoint& c) {
  return is_whole(c) && c.commit.health == kHealthOk;
}

bool is_verified(const Checkpoint& c) {
  return c.verified.contains(std::string(kRunTier));
}

template <class May>
const Checkpoint* best_where(const History& history, const BestRule& rule, const May& may) {
  const Checkpoint* out = nullptr;
  for (const Checkpoint& c : history.checkpoints()) {
    const auto value = c.commit.metrics.find(rule.metric);
    if (value == c.commit.metrics.end() || !std::isfinite(value->second) || !counts(c) || !may(c)) continue;
    if (out == nullptr || rule.is_better(value->second, out->commit.metrics.at(rule.metric))) out = &c;
  }
  return out;
}

/// Newest first, as a lineage is.
bool holds(const std::vector<const Checkpoint*>& sorted, const Checkpoint& c) {
  return std::binary_search(sorted.begin(), sorted.end(), &c,
                            [](const Checkpoint* a, const Checkpoint* b) { return a->slot > b->slot; });
}

/// Some checkpoints of a lineage, newest first, and how many of them are verified: what R7 counts.
class Count {
 public:
  void add(const Checkpoint& c) {
    sorted_.push_back(&c);
    if (is_verified(c)) ++verified_;
  }
  std::size_t newer_than(const Checkpoint& c) const {  // newest first, so they are a prefix
    const auto end = std::partition_point(sorted_.begin(), sorted_.end(),
                                          [&](const Checkpoint* other) { return other->slot > c.slot; });
    return static_cast<std::size_t>(end - sorted_.begin());
  }
  std::size_t verified_without(const Checkpoint& c) const {
    return verified_ - (is_verified(c) && holds(sorted_, c) ? 1 : 0);
  }

 private:
  std::vector<const Checkpoint*> sorted_;
  std::size_t verified_ = 0;
};

/// Rule R7 on one prefix; the lineage is walked once for any number of questions.
class Retention {
 public:
  explicit Retention(const History& history)
      : history_(history), resume_(history.protected_resume()), lineage_(history.lineage()) {
    for (const Checkpoint* c : candidates()) {
      if (is_whole(*c)) whole_.add(*c);
      if (counts(*c)) good_.add(*c);
    }
    if (const auto& rule = history.policy().best) {
      best_ = best(history, *rule);
      best_verified_ = best_where(history, *rule, is_verified);
    }
  }

  bool is_on_lineage(const Checkpoint& c) const { return holds(lineage_, c); }

  /// What forbids INTENT(c); empty: it may be appended. Not for one that is condemned already.
  std::vector<std::string> kept_by(const Checkpoint& c) const {
    std::vector<std::string> reasons;
    // Its going takes nothing from the good ones; a training that stays non-finite must not fill the disk.
    const Count& count = is_whole(c) && !counts(c) ? whole_ : good_;
    const bool is_verified_enough =
        count.verified_without(c) >= history_.policy().verified_min || UNBROKEN_MUTANT("verified_min_zero");
    if (count.newer_than(c) < history_.policy().keep_last || !is_verified_enough)
      reasons.emplace_back("last");
    if (&c == best_ || &c == best_verified_) reasons.push_back("best:" + history_.policy().best->metric);
    const std::uint64_t every = history_.policy().keep_every;
    if (every > 0 && c.commit.save.step % every == 0 && c.is_good() && is_on_lineage(c))
      reasons.push_back(fmt::format("every:{}", every));
    for (const std::string& tag : c.tags) reasons.push_back("tag:" + tag);
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

  const History& history_;
  const std::optional<SaveId> resume_;
  const std::vector<const Checkpoint*> lineage_;  // newest first
  Count good_;
  Count whole_;  ///< the good ones, and those with non-finite parameters
  /// A new best may turn out damaged, so the best that was read back stays until then.
  const Checkpoint *best_ = nullptr, *best_verified_ = nullptr;
};

}  // namespace

std::vector<Standing> standings(const History& history) {
  const Retention retention(history);
  std::vector<Standing> out;
  for (const Checkpoint& c : history.checkpoints())
    if (!c.is_intended) out.push_back({&c, retention.is_on_lineage(c), retention.kept_by(c)});
  return out;
}

const Checkpoint* best(const History& history, const BestRule& rule) {
  return best_where(history, rule, [](const Checkpoint&) { return true; });
}

std::vector<std::string> kept_by(const History& history, const SaveId& save) {
  const Checkpoint* c = history.find(save);
  if (c == nullptr || c->is_intended) return {};
  return Retention(history).kept_by(*c);
}

bool is_waived_by_force(const std::string& reason) {
  return reason != "resume" && reason != "pin" && !reason.starts_with("tag:");
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
