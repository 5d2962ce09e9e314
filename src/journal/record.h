#pragma once
// One record of the journal: a fact, the slot it stands in, who wrote it, and the digest of the record
// before.
//
// A record's file holds its canonical JSON twice, each copy closed by a SHA-256 line
// (docs/format/journal.md); writers stay below 4 KiB, readers accept 64 KiB. A type that this version does
// not know is refused when it is marked critical, else skipped but kept in the chain. Nothing is written that
// this version could not read back.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/digest.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"

namespace unbroken {

/// Slot 0: who this run is.
struct Genesis {
  std::string run;  ///< uuid, as 8-4-4-4-12 hex digits
  std::uint32_t format = 1;
  std::vector<std::string> features;  ///< critical flags: a reader that does not know one refuses
};

/// Who holds an attempt, as far as a machine can tell (protects against accidents; safety is the journal's).
struct Owner {
  std::string job;  ///< SLURM_JOB_ID and the like; empty where there is none
  std::string host, boot_id;
  std::uint64_t pid_namespace = 0, pid = 0, start_ticks = 0;
  std::uint64_t device = 0, inode = 0;  ///< of the run directory
};

/// A new attempt. Fencing the old one and choosing what to resume from are this one record.
struct Open {
  std::uint32_t attempt = 0;     ///< from 1
  std::uint32_t world = 1;       ///< writers that must hand in a receipt
  std::optional<SaveId> resume;  ///< none: a fresh start
  Nonce life;                    ///< of the (only) rank; receipts carry it
  std::string asked;             ///< what `resume=` said where it was not "newest": carried out once
  Owner owner;
};

/// The tier that is the run's own storage: the only one that this version writes.
inline constexpr std::string_view kRunTier = "run";

/// Of the parameters in a save.
inline constexpr std::string_view kHealthOk = "ok", kHealthNonFinite = "non-finite";

struct Commit {
  SaveId save;
  Sha256 manifest;
  std::uint64_t manifest_bytes = 0;
  std::uint64_t state_bytes = 0;          ///< of all shards
  std::map<std::string, double> metrics;  ///< see keep_metrics_that_fit
  std::string health = std::string(kHealthOk);
  std::string tier = "run";            ///< the tier that holds the bytes
  std::vector<std::string> tags = {};  ///< names that keep it; TAG adds to them, UNTAG takes away
};
struct Abort {
  SaveId save;
  std::string why;
};
/// The save is condemned: its bytes may go once this record is durable.
struct Intent {
  SaveId save;
};
struct Deleted {
  std::vector<SaveId> saves;
};
struct Pin {
  SaveId save;
  Nonce pin;
};
struct Unpin {
  SaveId save;
  Nonce pin;
};
/// Damage, with evidence. The texts are for people: what is not UTF-8 or too long is replaced or cut.
struct Quarantine {
  SaveId save;
  std::string tier = "run", object, expected, seen, host;
  Nonce life;
};
/// Read back whole. From another host than the one that found damage, it lifts a quarantine (rule R8).
struct Verified {
  SaveId save;
  std::string tier = "run";
  std::string host = {};
};
/// Which checkpoint is the best one.
struct BestRule {
  std::string metric;
  bool is_least = true;  ///< less is better
  bool is_better(double a, double b) const { return is_least ? a < b : a > b; }
  friend bool operator==(const BestRule&, const BestRule&) = default;
};
/// Retention that was asked for: kept in the journal so that every program applies the same. Both count from
/// 1.
struct Policy {
  std::uint32_t keep_last = 3, verified_min = 2;
  std::uint64_t keep_every = 0;       ///< steps that are multiples of it are kept; 0: none
  std::optional<BestRule> best = {};  ///< the best by this metric is kept
  friend bool operator==(const Policy&, const Policy&) = default;
};
/// A name that keeps a checkpoint. Several checkpoints may have the same.
struct Tag {
  SaveId save;
  std::string tag;
};
struct Untag {
  SaveId save;
  std::string tag;
};
/// How a fold is written. Whatever changes the text that a prefix comes to changes this number.
inline constexpr std::uint32_t kFoldForm = 1;

/// Slot `slot` holds junk with this digest: skip it.
struct Void {
  std::uint64_t slot = 0;
  Sha256 seen;
};
/// The fold of the slots before this one stands as an object of its own (journal/fold/fold.h), durable before
/// this record. Says nothing new: a reader that does not know it folds the records, and comes to the same.
struct Summary {
  std::uint32_t form = kFoldForm;  ///< another one: nothing more is known of it
  Sha256 fold;                     ///< of its canonical text
  std::uint64_t fold_bytes = 0;    ///< of the object
  friend bool operator==(const Summary&, const Summary&) = default;
};
/// A type this version reads past: SEAL, or one of a later version that is not critical.
struct Reserved {
  std::string type;
  bool is_critical = false;
  Json body;
};

using Fact = std::variant<Genesis, Open, Commit, Abort, Intent, Deleted, Pin, Unpin, Quarantine, Verified,
                          Policy, Void, Tag, Untag, Summary, Reserved>;

struct Record {
  std::uint64_t slot = 0;
  Nonce writer;                 ///< drawn anew for each append: tells whose record stands in a slot
  Sha256 previous;              ///< digest of the record before; zeros in slot 0
  std::int64_t at_unix_ms = 0;  ///< for people
  Fact fact;
};

inline constexpr std::uint64_t kRecordBytesWritten = 4096;
inline constexpr std::uint64_t kRecordBytesRead = 65536;

/// "OPEN", "COMMIT" ...
std::string_view type_of(const Fact& fact);

/// The file's bytes and the record's digest (SHA-256 of its canonical JSON).
struct EncodedRecord {
  std::string bytes;
  Sha256 digest;
  Record record;  ///< as it reads back: texts for people may have been cut
};
/// Errors: bad_argument (over 4 KiB, or not what decode_record would accept).
Result<EncodedRecord> encode_record(const Record& record);

struct DecodedRecord {
  Record record;
  Sha256 digest;
  bool is_repaired = false;
};
/// Errors: corrupt (magic, seal, shape, length), unsupported (a later version: unknown critical type, format
/// or feature).
Result<DecodedRecord> decode_record(std::string_view bytes);

/// A COMMIT has room for some metrics only: drops those that do not fit, and says how many. `first` stays,
/// and then the first of the alphabet.
std::size_t keep_metrics_that_fit(Commit& commit, const std::string& first = {});

/// 1 to 64 of letters, digits, `.`, `_`, `-`.
bool is_tag_name(std::string_view name);
/// Of one COMMIT.
inline constexpr std::size_t kTagsMax = 8;

}  // namespace unbroken
