#include "journal/history.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"

namespace unbroken {

namespace {

Error contradiction(const Record& record, std::string_view why) {
  return Error(Code::journal_unreadable,
               fmt::format("journal slot {} ({}): {}", record.slot, type_of(record.fact), why));
}

}  // namespace

Result<> History::apply(const Record& record, const Sha256& digest) {
  if (record.slot != next_slot_)
    return contradiction(record, fmt::format("stands where slot {} was expected", next_slot_));
  if (record.previous != head_) return contradiction(record, "does not follow the record before it");
  UNBROKEN_DO(apply_fact(record, digest));
  head_ = digest;
  ++next_slot_;
  return Done{};
}

void History::skip_void(std::uint64_t slot, const Sha256&) {
  // The chain runs past the junk: the VOID record itself names the record before the junk as its previous.
  next_slot_ = slot + 1;
  ++void_bonus_;
}

Result<> History::apply_fact(const Record& record, const Sha256& digest) {
  if ((record.slot == 0) != std::holds_alternative<Genesis>(record.fact))
    return contradiction(record, "GENESIS stands in slot 0 and nowhere else");
  return std::visit([&](const auto& fact) { return fold(fact, record, digest); }, record.fact);
}

Result<> History::fold(const Genesis& genesis, const Record&, const Sha256&) {
  genesis_ = genesis;
  return Done{};
}

Result<> History::fold(const Open& open, const Record& record, const Sha256& digest) {
  if (!attempts_.empty() && open.attempt <= attempts_.back().open.attempt)
    return contradiction(
        record, fmt::format("attempt {} after attempt {}", open.attempt, attempts_.back().open.attempt));
  if (open.resume && !find(*open.resume))
    return contradiction(record, "resumes from a save that was never committed");
  attempts_.push_back({open, record.slot, digest, record.at_unix_ms});
  void_bonus_ = 0;
  return Done{};
}

Result<> History::fold(const Commit& commit, const Record& record, const Sha256&) {
  const bool is_newest_attempt = !attempts_.empty() && attempts_.back().open.attempt == commit.save.attempt;
  if (!is_newest_attempt && !UNBROKEN_MUTANT("no_fence"))
    return contradiction(record, "commits for an attempt that is not the newest");
  if (find(commit.save)) return contradiction(record, "commits a save twice");
  if (is_aborted(commit.save) && !UNBROKEN_MUTANT("s6_blind_to_abort"))
    return contradiction(record, "commits a try that was aborted");
  index_[commit.save] = checkpoints_.size();
  checkpoints_.push_back({commit, record.slot, record.at_unix_ms, false, false, {}, {}, {}});
  last_commit_[commit.save.attempt] = commit.save;
  tries_[{commit.save.attempt, commit.save.step}] = commit.save.try_index + 1;
  return Done{};
}

Result<> History::fold(const Abort& abort, const Record&, const Sha256&) {
  aborted_.insert(abort.save);
  auto& next = tries_[{abort.save.attempt, abort.save.step}];
  next = std::max(next, abort.save.try_index + 1);
  return Done{};
}

Result<> History::fold(const Intent& intent, const Record&, const Sha256&) {
  if (Checkpoint* c = find_mutable(intent.save)) c->is_intended = true;
  return Done{};
}

Result<> History::fold(const Deleted& deleted, const Record&, const Sha256&) {
  for (const SaveId& save : deleted.saves)
    if (Checkpoint* c = find_mutable(save)) c->is_deleted = true;
  return Done{};
}

Result<> History::fold(const Pin& pin, const Record&, const Sha256&) {
  if (Checkpoint* c = find_mutable(pin.save)) c->pins.insert(pin.pin);
  return Done{};
}

Result<> History::fold(const Unpin& unpin, const Record&, const Sha256&) {
  if (Checkpoint* c = find_mutable(unpin.save)) {
    if (UNBROKEN_MUTANT("unnamed_pins")) c->pins.clear();
    c->pins.erase(unpin.pin);
  }
  return Done{};
}

Result<> History::fold(const Quarantine& quarantine, const Record&, const Sha256&) {
  if (Checkpoint* c = find_mutable(quarantine.save)) {
    c->quarantine = quarantine;
    c->verified.erase(quarantine.tier);
  }
  return Done{};
}

Result<> History::fold(const Verified& verified, const Record&, const Sha256&) {
  if (Checkpoint* c = find_mutable(verified.save)) {
    c->verified.insert(verified.tier);
    // Read back whole after all: a later VERIFIED of the same tier lifts a quarantine (rule R8).
    if (c->quarantine && c->quarantine->tier == verified.tier) c->quarantine.reset();
  }
  return Done{};
}

Result<> History::fold(const Policy& policy, const Record&, const Sha256&) {
  policy_ = policy;
  return Done{};
}

Result<> History::fold(const Void&, const Record&, const Sha256&) {
  return Done{};
}

Result<> History::fold(const Reserved& reserved, const Record&, const Sha256&) {
  if (reserved.type == "SEAL") is_sealed_ = true;
  return Done{};
}

std::uint32_t History::next_attempt() const {
  const std::uint32_t newest = attempts_.empty() ? 0 : attempts_.back().open.attempt;
  return newest + 1 + (void_bonus_ > 0 ? 1 : 0);
}

const Checkpoint* History::find(const SaveId& save) const {
  const auto it = index_.find(save);
  return it == index_.end() ? nullptr : &checkpoints_[it->second];
}

Checkpoint* History::find_mutable(const SaveId& save) {
  const auto it = index_.find(save);
  return it == index_.end() ? nullptr : &checkpoints_[it->second];
}

std::uint32_t History::next_try(std::uint64_t step, std::uint32_t attempt) const {
  const auto it = tries_.find({attempt, step});
  return it == tries_.end() ? 0 : it->second;
}

std::vector<const Checkpoint*> History::lineage() const {
  std::vector<const Checkpoint*> out;
  if (attempts_.empty()) return out;
  // Walk back: commits of the newest attempt, then everything up to its resume point in the attempt that made
  // it.
  std::uint32_t attempt = attempts_.back().open.attempt;
  std::optional<std::size_t>
      limit;  // index of the newest checkpoint of `attempt` that counts; none: all of them
  while (true) {
    const std::size_t begin = limit ? *limit + 1 : checkpoints_.size();
    for (std::size_t i = begin; i-- > 0;)
      if (checkpoints_[i].commit.save.attempt == attempt) out.push_back(&checkpoints_[i]);
    const auto opened = std::find_if(attempts_.begin(), attempts_.end(),
                                     [&](const Attempt& a) { return a.open.attempt == attempt; });
    if (opened == attempts_.end() || !opened->open.resume) return out;
    const auto resume = index_.find(*opened->open.resume);
    if (resume == index_.end() || opened->open.resume->attempt >= attempt) return out;
    attempt = opened->open.resume->attempt;
    limit = resume->second;
  }
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
  if (last == last_commit_.end()) return false;
  // Commits of one attempt are in step order, and a step is committed once.
  return save.step <= last->second.step;
}

}  // namespace unbroken
