#pragma once
// What may be appended about reading: OPEN, VERIFIED, QUARANTINE, each decided on the exact prefix it
// extends.
#include <optional>
#include <string>

#include "format/receipt.h"
#include "format/verify.h"
#include "journal/append.h"
#include "restore/choose.h"

namespace unbroken {

/// Why a new attempt resumes from where it does.
struct Resume {
  At at;                         ///< what was asked for
  std::optional<SaveId> save;    ///< what it means on the prefix that was read; none: a fresh start
  bool was_carried_out = false;  ///< an earlier attempt already resumed from what was asked for
  std::optional<SaveId> avoid;   ///< not this one, unless it was asked for
  std::optional<std::uint64_t> newest_open;  ///< slot of the attempt whose owner was looked at
};

/// What `at` means on this prefix. A choice other than newest is carried out once: after that the newest of
/// the lineage that it opened counts, unless the choice turned out damaged before anything was saved. A fresh
/// start needs a prefix without commits, or `is_fresh_allowed` and no checkpoint on any lineage that can be
/// loaded; then it counts as carried out too. Where the newest is `avoid`, it is the one before.
/// Errors: not_found, corrupt, bad_argument as choose(); corrupt, where there is none before `avoid`.
Result<Resume> choose_resume(const History& history, const At& at, bool is_fresh_allowed,
                             const std::optional<SaveId>& avoid = std::nullopt);

/// How many attempts in a row, right before the newest one, resumed from the same checkpoint as it does and
/// committed nothing: 0 where the newest begins at step 0. A checkpoint that kills whoever loads it shows so.
std::size_t attempts_in_vain(const History& history);

/// Appends OPEN if, on the prefix, `at` still means `resume.save`; else stands down, and the caller looks
/// again.
Decide open_decision(Resume resume, bool is_fresh_allowed, Open open);
/// Appends GENESIS where the journal is empty.
Decide genesis_decision(Genesis genesis);
/// Refused where INTENT stands in the prefix (rule R6) or where it says what is known.
Decide verified_decision(Verified verified);
Decide quarantine_decision(Quarantine quarantine);
/// The fact for the worst of what was found. Texts that are too long for a record are cut there.
Quarantine quarantine_of(const SaveId& save, const Damage& worst, std::string host, Nonce life);
/// TAG, UNTAG, where they change something. Errors: not_found (it was removed).
Decide tag_decision(Tag tag);
Decide untag_decision(Untag untag);
/// PIN. Errors: vanished (condemned, or gone).
Decide pin_decision(Pin pin);
/// UNPIN, where it is there.
Decide unpin_decision(Unpin unpin);
/// Appends POLICY where another one is in force.
Decide policy_decision(OpenRef mine, Policy policy);

}  // namespace unbroken
