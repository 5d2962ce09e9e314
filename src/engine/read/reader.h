#pragma once
// Looking at a run without fencing anybody, and without writing anything but a pin that was asked for: for
// loads, commands and checks.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/bulk.h"
#include "engine/opening.h"
#include "engine/pin/pin.h"
#include "engine/seams.h"
#include "journal/read_journal.h"
#include "restore/read_save.h"

namespace unbroken {

/// The journal as it stands. Errors: not_found (not a run: missing, empty, or nothing of ours),
/// journal_unreadable, unsupported, unavailable.
Result<JournalRead> look_at_run(const Seams& seams, const Deadline& by,
                                ReadJournal::Purpose purpose = ReadJournal::Purpose::look);

/// Whether a checkpoint is pinned while it is read.
enum class Hold : std::uint8_t {
  nothing,   ///< nothing is written; retention may take the checkpoint meanwhile
  if_alive,  ///< pinned, unless the run was closed or cannot be written to
  pin,       ///< pinned, or an error
};

/// One checkpoint being read.
class Reader {
 public:
  /// Chooses, holds and reads the description. `newest` falls back past damage; anything else that is damaged
  /// is an error. Errors: as look_at_run() and choose(); corrupt; vanished (collected meanwhile, unpinned);
  /// with Hold::pin also those of appending.
  static Result<Reader> open(const Seams& seams, std::string_view at, const Deadline& by,
                             Hold hold = Hold::nothing);
  /// Lets go of what is held; without it the pin lapses. Errors: those of appending.
  Result<> close(const Deadline& by);
  const SavedState& saved() const { return saved_; }
  const std::vector<FellBack>& fell_back() const { return fell_back_; }
  /// Reads and verifies everything, into the targets. Errors: corrupt (damaged; targets may hold anything),
  /// vanished (collected meanwhile), unavailable.
  Result<> read(const std::vector<TensorTarget>& targets, const Deadline& by);
  /// After a failed read of the newest: the next older one that can be described, held as the first was.
  /// `found`: the damage, where it was not read() that found it. Errors: corrupt, naming all that were passed
  /// over; not_found, where none was damaged but all are gone.
  Result<> next_older(const Deadline& by, std::string_view found = {});

 private:
  Reader(const Seams& seams, Hold hold) : seams_(seams), hold_(hold) {}
  /// Errors: vanished (condemned by now: choose again); those of appending.
  Result<> hold(const Checkpoint& checkpoint, const Deadline& by);
  Result<> describe(const Checkpoint& checkpoint, const Deadline& by);
  Error nothing_left() const;
  /// What looks like damage may have been collected meanwhile. Errors: vanished.
  Result<> check_not_removed(const Deadline& by) const;
  Result<> choose_and_describe(std::string_view at, const Deadline& by);
  void pass_over(FellBack fallen);

  Seams seams_;
  Hold hold_;
  JournalRead journal_;
  std::shared_ptr<HeldPin> pin_;
  At at_;
  SavedState saved_;
  std::optional<Damage> last_damage_;
  std::vector<FellBack> fell_back_;
};

}  // namespace unbroken
