#pragma once
// The beginning of a life of a run: find out what is there, check that it fits, take the run over, load.
//
//   1. read the journal; an empty directory is a fresh start only if nothing says that there was an
//      earlier life;
//   2. the owner of the newest attempt must not be seen alive here;
//   3. choose the checkpoint, read its description, let the caller compare it with what is attached;
//   4. append OPEN, which fences the old attempt and fixes the resume point in one act;
//   5. load and verify. Damage is read once more, then quarantined, and a new OPEN chooses again.
// Until step 4 nothing is written that means anything.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/bulk.h"
#include "engine/seams.h"
#include "format/receipt.h"
#include "journal/hint.h"
#include "journal/history.h"
#include "restore/choose.h"
#include "restore/read_save.h"

namespace unbroken {

/// Knows the live state.
class Loader {
 public:
  virtual ~Loader() = default;
  /// Does it fit? Nothing was written yet. Errors: mismatch, or whatever the caller wants to end with.
  virtual Result<> check(const SavedState& saved) = 0;
  /// Where the bytes go; asked after OPEN.
  virtual Result<std::vector<TensorTarget>> targets(const SavedState& saved) = 0;
};

struct OpenOptions {
  At resume;
  bool is_fresh_allowed = false;
  bool is_takeover = false;
  bool has_sign = false;  ///< the caller knows of an earlier life
  Policy policy;
  /// Asked once, right before the first record is appended: is this storage fit for a journal?
  std::function<Result<>(const Deadline&)> probe;
  /// Asked right before the life's first OPEN, with what the journal tells of the lives before: may it begin?
  /// May be empty.
  std::function<Result<>(const History&)> admit;
  /// Called once this process owns the run: removes what killed ones left of a create. May be empty.
  std::function<void(const Deadline&)> sweep;
};

struct FellBack {
  SaveId save;
  std::string object, what;
};

/// Those that were passed over, in words: "9.a1, 8.a1, 7.a1 and 2 more are damaged (9.a1: data/..: checksum
/// differs)". There is one at least.
std::string passed_over(const std::vector<FellBack>& fell_back);

struct Opened {
  History history;
  std::string run;  ///< uuid
  OpenRef open;
  std::uint32_t attempt = 0;
  Nonce life;
  std::optional<SaveId> resume;  ///< none: a fresh start
  std::int64_t resumed_at_unix_ms = 0;
  std::vector<FellBack> fell_back;
  std::vector<std::string> notes;  ///< for a person
};

/// Errors: not_found (nothing to resume from, 66), journal_unreadable, corrupt (a checkpoint that was named),
/// bad_argument (the owner is alive), mismatch, unavailable, no_space, unsupported, those of `admit`.
Result<Opened> open_run(const Seams& seams, const OpenOptions& options, Loader& loader, const Deadline& by);

}  // namespace unbroken
