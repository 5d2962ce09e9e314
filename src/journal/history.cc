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
    std::is_same_v<F, Void> || std::is_same_v<F, Summary> || std::is_same_v<F, Reserved>;

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
  /// What was deleted is not remembered one by one, and saying more of it changes nothing.
  Result<> committed_once(const SaveId& save) const {
    if (prefix.may_be_deleted(save)) return Done{};
    return committed(save);
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
    const Attempt* attempt = prefix.find_attempt(commit.save.attempt);
    if (attempt != nullptr && attempt->last_commit && commit.save.step <= attempt->last_commit->step)
      return no(fmt::format("{} after {}: the steps of an attempt are committed in order", commit.save.name(),
                            attempt->last_commit->name()));
    return Done{};
  }
  Result<> operator()(const Abort& abort) const {
    UNBROKEN_DO(of_newest_attempt(abort.save));
    if (prefix.find(abort.save) != nullptr) return no("a committed save is aborted");
    return Done{};
  }
  Result<> operator()(const Intent& intent) const {
    UNBROKEN_DO(committed_once(intent.save));
    if (prefix.find(intent.save) == nullptr) return Done{};
    if (!prefix.find(intent.save)->pins.empty()) return no(fmt::format("{} is pinned", intent.save.name()));
    if (!prefix.find(intent.save)->tags.empty()) return no(fmt::format("{} is tagged", intent.save.name()));
    if (prefix.protected_resume() == intent.save && !UNBROKEN_MUTANT("resume_unprotected"))
      return no(fmt::format("{} is what the newest attempt resumes from", intent.save.name()));
    return Done{};
  }
  Result<> operator()(const Deleted& deleted) const {
    for (const SaveId& save : deleted.saves) {
      UNBROKEN_DO(committed_once(save));
      if (prefix.find(save) != nullptr && !prefix.find(save)->is_intended)
        return no(fmt::format("{} was not condemned", save.name()));
    }
    return Done{};
  }
  Result<> operator()(const Pin& pin) const { return not_condemned(pin.save); }
  Result<> operator()(const Unpin& unpin) const { return committed_once(unpin.save); }
  Result<> operator()(const Tag& tag) const { return not_condemned(tag.save); }
  Result<> operator()(const Untag& untag) const { return committed_once(untag.save); }
  Result<> operator()(const Quarantine& quarantine) const { return not_condemned(quarantine.save); }
  Result<> operator()(const Verified& verified) const { return not_condemned(verified.save); }
  Result<> operator()(const Policy&) const { return Done{}; }
  Result<> operator()(const Void&) const { return Done{}; }
  Result<> operator()(const Summary&) const { return Done{}; }
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
    prefix.attempts_.push_back(
        {open, record.slot, digest, record.at_unix_ms, 0, std::nullopt, record.at_unix_ms});
    prefix.aborted_.clear();
    prefix.voids_since_open_ = 0;
  }
  void operator()(const Commit& commit) const {
    prefix.index_[commit.save] = prefix.checkpoints_.size();
    prefix.checkpoints_.push_back({commit, record.slot, record.at_unix_ms, false, {}, {}, {}, {}});
    prefix.checkpoints_.back().tags = {commit.tags.begin(), commit.tags.end()};
    Attempt& attempt = *std::find_if(prefix.attempts_.rbegin(), prefix.attempts_.rend(),
                                     [&](const Attempt& a) { return a.open.attempt == commit.save.attempt; });
    ++attempt.commits;
    attempt.last_commit = commit.save;
    attempt.last_sign_unix_ms = std::max(attempt.last_sign_unix_ms, record.at_unix_ms);
  }
  void operator()(const Abort& abort) const { prefix.aborted_.insert(abort.save); }
  void operator()(const Intent& intent) const {
    if (Checkpoint* c = prefix.find_mutable(intent.save)) c->is_intended = true;
  }
  void operator()(const Deleted& deleted) const {
    const std::set<SaveId> gone(deleted.saves.begin(), deleted.saves.end());
    std::erase_if(prefix.checkpoints_, [&](const Checkpoint& c) { return gone.contains(c.commit.save); });
    prefix.index_checkpoints();
  }
  void operator()(const Pin& pin) const { prefix.find_mutable(pin.save)->pins.insert(pin.pin); }
  void operator()(const Unpin& unpin) const {
    Checkpoint* c = prefix.find_mutable(unpin.save);
    if (c == nullptr) return;
    if (UNBROKEN_MUTANT("unnamed_pins")) c->pins.clear();
    c->pins.erase(unpin.pin);
  }
  void operator()(const Tag& tag) const { prefix.find_mutable(tag.save)->tags.insert(tag.tag); }
  void operator()(const Untag& untag) const {
    if (Checkpoint* c = prefix.find_mutable(untag.save)) c->tags.erase(untag.tag);
  }
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
  void operator()(const Summary& summary) const {
    prefix.folds_.push_back({record.slot, summary});
    if (prefix.folds_.size() > kFoldsKept) prefix.folds_.erase(prefix.folds_.begin());
  }
  void operator()(const Reserved& reserved) const {
    if (reserved.type == "SEAL") prefix.is_sealed_ = true;
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

void History::index_checkpoints() {
  index_.clear();
  for (std::size_t i = 0; i < checkpoints_.size(); ++i) index_[checkpoints_[i].commit.save] = i;
}

bool History::has_commits() const {
  return std::any_of(attempts_.begin(), attempts_.end(), [](const Attempt& a) { return a.commits > 0; });
}

bool History::may_be_deleted(const SaveId& save) const {
  if (find(save) != nullptr || is_aborted(save)) return false;
  const Attempt* attempt = find_attempt(save.attempt);
  return attempt != nullptr && attempt->last_commit && save.step <= attempt->last_commit->step;
}

const Attempt* History::find_attempt(std::uint32_t number) const {
  const auto it = std::lower_bound(attempts_.begin(), attempts_.end(), number,
                                   [](const Attempt& a, std::uint32_t n) { return a.open.attempt < n; });
  return it == attempts_.end() || it->open.attempt != number ? nullptr : &*it;
}

std::vector<const Checkpoint*> History::lineage() const {
  std::vector<const Checkpoint*> out;
  auto next = checkpoints_.rbegin();
  std::optional<SaveId> last;  // of the attempt at hand: its later steps were given up
  for (const Attempt* attempt = newest_attempt(); attempt != nullptr;) {
    // The commits of an attempt stand after its OPEN, in the order of their steps.
    for (; next != checkpoints_.rend() && next->slot > attempt->slot; ++next) {
      const SaveId& save = next->commit.save;
      if (save.attempt == attempt->open.attempt && (!last || save.step <= last->step)) out.push_back(&*next);
    }
    last = attempt->open.resume;
    attempt = last ? find_attempt(last->attempt) : nullptr;
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
  if (attempts_.back().last_commit) return std::nullopt;
  return attempts_.back().open.resume;
}

bool History::is_dead(const SaveId& save) const {
  if (const Checkpoint* c = find(save)) return c->is_intended;
  if (attempts_.empty()) return false;
  if (save.attempt < attempts_.back().open.attempt || is_aborted(save)) return true;
  const Attempt& newest = attempts_.back();
  // Commits of one attempt are in step order, and a step is committed once.
  return save.attempt == newest.open.attempt && newest.last_commit && save.step <= newest.last_commit->step;
}

}  // namespace unbroken
