#pragma once
// The fold: what the records of the journal's prefix say, and nothing else. A pure value.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "journal/record.h"

namespace unbroken {

/// An attempt is identified by its OPEN record, not by its number.
struct Attempt {
  Open open;
  std::uint64_t slot = 0;
  Sha256 digest;
  std::int64_t at_unix_ms = 0;
  std::uint32_t commits = 0;           ///< all that it made, deleted ones too
  std::optional<SaveId> last_commit;   ///< the last of them
  std::int64_t last_sign_unix_ms = 0;  ///< the latest time in its OPEN and its COMMITs
};

struct Checkpoint {
  Commit commit;
  std::uint64_t slot = 0;
  std::int64_t at_unix_ms = 0;
  bool is_intended = false;        ///< condemned; its bytes may be gone
  std::set<std::string> verified;  ///< tiers where it was read back whole
  std::optional<Quarantine> quarantine;
  std::set<Nonce> pins;
  std::set<std::string> tags;
  bool is_quarantined() const { return quarantine.has_value(); }
  /// May be loaded: committed, whole as far as known, not condemned.
  bool is_good() const { return !is_intended && !is_quarantined(); }
};

/// A SUMMARY, and where it stands.
struct FoldRef {
  std::uint64_t slot = 0;
  Summary summary;
  friend bool operator==(const FoldRef&, const FoldRef&) = default;
};

/// A SUMMARY is due in each slot that is a multiple of it, but slot 0 (rule R12).
inline constexpr std::uint64_t kFoldEvery = 256;
/// Of so many SUMMARYs, the newest, the objects are kept.
inline constexpr std::size_t kFoldsKept = 2;

class History {
 public:
  History() = default;
  /// For tests: a SUMMARY is due more often.
  explicit History(std::uint64_t fold_every) : fold_every_(fold_every) {}

  /// May `record` follow this prefix? What a writer asks before it appends, and a reader before it folds: the
  /// journal holds nothing that the rules do not permit.
  /// Errors: journal_unreadable (slot out of order, broken chain, a record that contradicts the prefix).
  Result<> check(const Record& record) const;
  /// Errors: those of check(); nothing is changed then.
  Result<> apply(const Record& record, const Sha256& digest);
  /// Skips the junk in the next slot, which VOID(slot, seen) in the slot after declares void and must follow.
  void skip_void(std::uint64_t slot, const Sha256& seen);

  std::uint64_t next_slot() const { return next_slot_; }
  const Sha256& head() const { return head_; }  ///< digest of the last record; zeros before slot 0
  const std::optional<Genesis>& genesis() const { return genesis_; }
  const Policy& policy() const { return policy_; }
  bool is_sealed() const { return is_sealed_; }

  const std::vector<Attempt>& attempts() const { return attempts_; }  ///< journal order
  const Attempt* newest_attempt() const { return attempts_.empty() ? nullptr : &attempts_.back(); }
  /// Is the OPEN with this place and digest the newest one?
  bool is_newest(std::uint64_t slot, const Sha256& digest) const {
    return !attempts_.empty() && attempts_.back().slot == slot && attempts_.back().digest == digest;
  }
  /// max + 1, and one more for each slot voided since, which may have been an OPEN (rule R13).
  std::uint32_t next_attempt() const;

  /// Those that are not DELETED, in journal order.
  const std::vector<Checkpoint>& checkpoints() const { return checkpoints_; }
  /// Was anything ever committed, and be it deleted since?
  bool has_commits() const;
  const Checkpoint* find(const SaveId& save) const;
  /// Of the newest attempt: what else was aborted is dead anyhow.
  bool is_aborted(const SaveId& save) const { return aborted_.contains(save); }
  /// Not there, but may have been: its attempt went on past it. What was committed and DELETED is not
  /// remembered one by one.
  bool may_be_deleted(const SaveId& save) const;

  /// Checkpoints on the lineage of the newest OPEN, newest first: its own commits, then its resume point and
  /// what lies before that in the same way (rule R2).
  std::vector<const Checkpoint*> lineage() const;
  bool is_on_lineage(const SaveId& save) const;
  /// What a restart resumes from: the newest good one on the lineage.
  const Checkpoint* newest() const;
  /// The save that the newest OPEN resumes from while that attempt has no COMMIT: protected (rule R7).
  std::optional<SaveId> protected_resume() const;
  /// True once no COMMIT of this save can follow any more (rules R6, R10): its debris may go.
  bool is_dead(const SaveId& save) const;

  std::uint64_t fold_every() const { return fold_every_; }
  /// Must the next slot hold a SUMMARY?
  bool is_summary_due() const { return next_slot_ > 0 && next_slot_ % fold_every_ == 0; }
  /// The newest, oldest first; at most kFoldsKept.
  const std::vector<FoldRef>& folds() const { return folds_; }

 private:
  friend class FoldText;  // fold.cc
  struct Check;           // one overload for each fact, in history.cc
  struct Fold;
  Checkpoint* find_mutable(const SaveId& save);
  void index_checkpoints();
  const Attempt* find_attempt(std::uint32_t number) const;

  std::uint64_t next_slot_ = 0;
  Sha256 head_;
  std::optional<Genesis> genesis_;
  Policy policy_;
  bool is_sealed_ = false;
  std::optional<Void> void_due_;  // junk was skipped: this record must follow
  std::uint32_t voids_since_open_ = 0;
  std::vector<Attempt> attempts_;
  std::vector<Checkpoint> checkpoints_;
  std::map<SaveId, std::size_t> index_;
  std::set<SaveId> aborted_;
  std::vector<FoldRef> folds_;
  std::uint64_t fold_every_ = kFoldEvery;
};

}  // namespace unbroken
