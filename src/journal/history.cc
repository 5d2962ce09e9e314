#include "journal/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/mutant.h"

namespace unbroken {

namespace {

/// After SEAL only these may follow (rule R20); an OPEN would have to say that it reopens.
template <class F>
constexpr bool kMayFollowSeal =
    std::is_same_v<F, Pin> || std::is_same_v<F, Unpin> || std::is_same_v<F, Quarantine> ||
    std::is_same_v<F, Verified> || std::is_same_v<F, Intent> || std::is_same_v<F, Deleted> ||
    std::is_same_v<F, Void> || std::is_same_v<F, Reserved>;

}  // namespace

/// What each fact may not contradict. Repeating what holds already is harmless and allowed: two collectors
/// may both say that a save is deleted.
struct History::Check {
  const History& prefix;
  const Record& record;

  Error no(std::string_view why) const {
    return Error(Code::journal_unreadable,
                 fmt::format("journal slot {} ({}): {}", record.slot, type_of(record.fact), why));
  }
  Result<> committed(const SaveId& save) const {
    if (prefix.find(save) == nullptr) return no(fmt::format("{} was never committed", save.name()));
    return Done{};
  }
  /// Rule R6: nothing more is said of a condemned save but that it is gone.
  Result<> not_condemned(const SaveId& save) const {
    UNBROKEN_DO(committed(save));
    if (prefix.find(save)->is_intended) return no(fmt::format("{} is condemned", save.name()));
    return Done{};
  }
  Result<> of_newest_attempt(const SaveId& save) const {
    const Attempt* newest = prefix.newest_attempt();
    if (newest == nullptr || newest->open.attempt != save.attempt)
      return no(fmt::format("{} is not of the newest attempt", save.name()));
    return Done{};
  }

  Result<> operator()(const Genesis&) const { return Done{}; }
  Result<> operator()(const Open& open) const {
    if (open.attempt < prefix.next_attempt())
      return no(fmt::format("attempt {}, expected {} or more", open.attempt, prefix.next_attempt()));
    if (!open.resume) return Done{};
    UNBROKEN_DO(not_condemned(*open.resume));
    if (prefix.find(*open.resume)->is_quarantined())
      return no(fmt::format("{} is quarantined", open.resume->name()));
    return Done{};
  }
  Result<> operator()(const Commit& commit) const {
    if (!UNBROKEN_MUTANT("no_fence")) UNBROKEN_DO(of_newest_attempt(commit.save));
    if (prefix.find(commit.save) != nullptr) return no("a save is committed twice");
    if (prefix.is_aborted(commit.save) && !UNBROKEN_MUTANT("s6_blind_to_abort"))
      return no("a try that was aborted is committed");
    const auto last = prefix.last_commit_.find(commit.save.attempt);
    if (last != prefix.last_commit_.end() && commit.save.step <= last->second.step)
      return no(fmt::format("{} after {}: the steps of an attempt are committed in order", commit.save.name(),
                            last->second.name()));
    return Done{};
  }
  Result<> operator()(const Abort& abort) const {
    UNBROKEN_DO(of_newest_attempt(abort.save));
    if (prefix.find(abort.save) != nullptr) return no("a committed save is aborted");
    return Done{};
  }
  Result<> operator()(const Intent& intent) const {
    UNBROKEN_DO(committed(intent.save));
    if (!prefix.find(intent.save)->pins.empty()) return no(fmt::format("{} is pinned", intent.save.name()));
    if (!prefix.find(intent.save)->tags.empty()) return no(fmt::format("{} is tagged", intent.save.name()));
    if (prefix.protected_resume() == intent.save && !UNBROKEN_MUTANT("resume_unprotected"))
      return no(fmt::format("{} is what the newest attempt resumes from", intent.save.name()));
    return Done{};
  }
  Result<> operator()(const Deleted& deleted) const {
    for (const SaveId& save : deleted.saves) {
      UNBROKEN_DO(committed(save));
      if (!prefix.find(save)->is_intended) return no(fmt::format("{} was not condemned", save.name()));
    }
    return Done{};
  }
  Result<> operator()(const Pin& pin) const { return not_condemned(pin.save); }
  Result<> operator()(const Unpin& unpin) const { return committed(unpin.save); }
  Result<> operator()(const Tag& tag) const { return not_condemned(tag.save); }
  Result<> operator()(const Untag& untag) const { return committed(untag.save); }
  Result<> operator()(const Quarantine& quarantine) const { return not_condemned(quarantine.save); }
  Result<> operator()(const Verified& verified) const { return not_condemned(verified.save); }
  Result<> operator()(const Policy&) const { return Done{}; }
  Result<> operator()(const Void&) const { return Done{}; }
  Result<> operator()(const Reserved&) const { return Done{}; }
};

Result<> History::check(const Record& record) const {
  const Check check{*this, record};
  if (record.slot != next_slot_)
    return check.no(fmt::format("stands where slot {} was expected", next_slot_));
  if (record.previous != head_) return check.no("does not follow the record before it");
  if ((record.slot == 0) != std::holds_alternative<Genesis>(record.fact))
    return check.no("GENESIS stands in slot 0 and nowhere else");
  const auto* v = std::get_if<Void>(&record.fact);
  const bool is_due = v != nullptr && void_due_ && v->slot == void_due_->slot && v->seen == void_due_->seen;
  if ((v != nullptr || void_due_) && !is_due)
    return check.no("VOID stands after the junk it names and nowhere else");
  return std::visit(
      [&]<class F>(const F& fact) -> Result<> {
        if (is_sealed_ && !kMayFollowSeal<F>) return check.no("the run is sealed");
        return check(fact);
      },
      record.fact);
}

struct History::Fold {
  History& prefix;
  const Record& record;
  const Sha256& digest;

  void operator()(const Genesis& genesis) const { prefix.genesis_ = genesis; }
  void operator()(const Open& open) const {
    prefix.attempts_.push_back({open, record.slot, digest, record.at_unix_ms});
    prefix.voids_since_open_ = 0;
  }
  void operator()(const Commit& commit) const {
    prefix.index_[commit.save] = prefix.checkpoints_.size();
    prefix.checkpoints_.push_back({commit, record.slot, record.at_unix_ms, false, false, {}, {}, {}, {}});
    prefix.checkpoints_.back().tags = {commit.tags.begin(), commit.tags.end()};
    prefix.last_commit_[commit.save.attempt] = commit.save;
    settle(commit.save);
  }
  void operator()(const Abort& abort) const {
    prefix.aborted_.insert(abort.save);
    settle(abort.save);
  }
  void operator()(const Intent& intent) const { prefix.find_mutable(intent.save)->is_intended = true; }
  void operator()(const Deleted& deleted) const {
    for (const SaveId& save : deleted.saves) prefix.find_mutable(save)->is_deleted = true;
  }
  void operator()(const Pin& pin) const { prefix.find_mutable(pin.save)->pins.insert(pin.pin); }
  void operator()(const Unpin& unpin) const {
    Checkpoint& c = *prefix.find_mutable(unpin.save);
    if (UNBROKEN_MUTANT("unnamed_pins")) c.pins.clear();
    c.pins.erase(unpin.pin);
  }
  void operator()(const Tag& tag) const { prefix.find_mutable(tag.save)->tags.insert(tag.tag); }
  void operator()(const Untag& untag) const { prefix.find_mutable(untag.save)->tags.erase(untag.tag); }
  void operator()(const Quarantine& quarantine) const {
    Checkpoint& c = *prefix.find_mutable(quarantine.save);
    c.quarantine = quarantine;
    c.verified.erase(quarantine.tier);
  }
  void operator()(const Verified& verified) const {
    Checkpoint& c = *prefix.find_mutable(verified.save);
    if (c.quarantine && c.quarantine->tier == verified.tier) {
      // Whole after all, says another host than the one that may be sick itself (rule R8).
      if (verified.host.empty() || verified.host == c.quarantine->host) return;
      c.quarantine.reset();
    }
    c.verified.insert(verified.tier);
  }
  void operator()(const Policy& policy) const { prefix.policy_ = policy; }
  void operator()(const Void&) const {
    prefix.void_due_.reset();
    ++prefix.voids_since_open_;
  }
  void operator()(const Reserved& reserved) const {
    if (reserved.type == "SEAL") prefix.is_sealed_ = true;
  }

  void settle(const SaveId& save) const {
    std::uint32_t& next = prefix.tries_[{save.attempt, save.step}];
    next = std::max(next, save.try_index + 1);
  }
};

Result<> History::apply(const Record& record, const Sha256& digest) {
  UNBROKEN_DO(check(record));
  std::visit(Fold{*this, record, digest}, record.fact);
  head_ = digest;
  ++next_slot_;
  return Done{};
}

void History::skip_void(std::uint64_t slot, const Sha256& seen) {
  // The chain runs past the junk: the VOID record itself names the record before the junk as its previous.
  next_slot_ = slot + 1;
  void_due_ = Void{slot, seen};
}

std::uint32_t History::next_attempt() const {
  const std::uint32_t newest = attempts_.empty() ? 0 : attempts_.back().open.attempt;
  return newest + 1 + voids_since_open_;
}

const Checkpoint* History::find(const SaveId& save) const {
  const auto it = index_.find(save);
  return it == index_.end() ? nullptr : &checkpoints_[it->second];
}

Checkpoint* History::find_mutable(const SaveId& save) {
  return const_cast<Checkpoint*>(std::as_const(*this).find(save));
}

const Attempt* History::find_attempt(std::uint32_t number) const {
  const auto it = std::lower_bound(attempts_.begin(), attempts_.end(), number,
                                   [](const Attempt& a, std::uint32_t n) { return a.open.attempt < n; });
  return it == attempts_.end() || it->open.attempt != number ? nullptr : &*it;
}

std::uint32_t History::next_try(std::uint64_t step, std::uint32_t attempt) const {
  const auto it = tries_.find({attempt, step});
  return it == tries_.end() ? 0 : it->second;
}

std::vector<const Checkpoint*> History::lineage() const {
  std::vector<const Checkpoint*> out;
  std::size_t end = checkpoints_.size();
  for (const Attempt* attempt = newest_attempt(); attempt != nullptr;) {
    // The commits of an attempt stand after its OPEN.
    for (std::size_t i = end; i > 0 && checkpoints_[i - 1].slot > attempt->slot; --i)
      if (checkpoints_[i - 1].commit.save.attempt == attempt->open.attempt)
        out.push_back(&checkpoints_[i - 1]);
    const auto& resume = attempt->open.resume;
    if (!resume) break;
    end = index_.at(*resume) + 1;
    attempt = find_attempt(resume->attempt);
  }
  return out;
}

bool History::is_on_lineage(const SaveId& save) const {
  const auto on = lineage();
  return std::any_of(on.begin(), on.end(), [&](const Checkpoint* c) { return c->commit.save == save; });
}

const Checkpoint* History::newest() const {
  for (const Checkpoint* c : lineage())
    if (c->is_good()) return c;
  return nullptr;
}

std::optional<SaveId> History::protected_resume() const {
  if (attempts_.empty()) return std::nullopt;
  const Open& open = attempts_.back().open;
  if (last_commit_.contains(open.attempt)) return std::nullopt;
  return open.resume;
}

bool History::is_dead(const SaveId& save) const {
  if (const Checkpoint* c = find(save)) return c->is_intended;
  if (attempts_.empty()) return false;
  if (save.attempt < attempts_.back().open.attempt || is_aborted(save)) return true;
  const auto last = last_commit_.find(save.attempt);
  // Commits of one attempt are in step order, and a step is committed once.
  return last != last_commit_.end() && save.step <= last->second.step;
}

}  // namespace unbroken
