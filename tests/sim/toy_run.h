#pragma once
// A training run small enough to be simulated a million times: the real engine on simulated seams, a state of
// a few tensors whose content at every step is known from the step alone, and an oracle outside of all
// processes.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/read/reader.h"
#include "filestore/file_store.h"
#include "sim/sim_world.h"

namespace unbroken::toy {

/// What one life of the run does.
struct Life {
  std::uint64_t steps = 6;  ///< in all, not in this life
  std::uint64_t every = 1;
  std::uint32_t keep_last = 3, verified_min = 2;
  std::uint64_t keep_every = 0;
  bool is_best_kept = false;    ///< by a metric that goes up and down
  bool is_tagging = false;      ///< now and then
  std::uint64_t nan_every = 0;  ///< steps after which a parameter is not finite; 0: none
  bool is_takeover = false;
  bool is_draining = false;  ///< after every save: everything is quiet before the next step
  std::string resume = "newest";
  std::uint64_t fold_every = kFoldEvery;
  Duration pin_lasts = kPinLasts;
};

/// Knows what was promised, and looks at what is there. Outside of every process: a crash does not touch it.
class Oracle {
 public:
  explicit Oracle(SimWorld& world) : world_(&world) {}
  /// Goes on in another world that holds the same disk.
  void move_to(SimWorld& world) { world_ = &world; }

  void acknowledged(const SaveId& save);
  void restored(std::uint64_t step, std::uint32_t attempt, std::uint64_t content);
  void refused(const std::string& who, const Error& error);
  void fenced(std::uint32_t attempt) { fenced_.insert(attempt); }
  /// Reads everything on the disk, with nobody else there: the journal folds, every checkpoint that may be
  /// loaded is whole, what was acknowledged is there, and retention never went below what it keeps.
  void check_disk();
  /// And no temporary name is left, nor a heartbeat of no pin: a life that nobody disturbed has begun since
  /// the last one was killed.
  void check_swept();
  std::uint64_t slot_count();
  /// Removes every slot from `left` on.
  void cut_journal(std::uint64_t left);
  /// Turns the last slot into junk: what it said no longer counts. Its number.
  std::uint64_t spoil_last_slot();
  /// True where the journal reads, junk that was declared void included.
  bool is_readable();
  /// Errors are no failure while storage fails or a choice was made that can be refused.
  bool are_errors_allowed = false;
  /// A start may be refused because another life of the run is alive.
  bool may_see_an_owner = false;
  /// Storage may flip bits or lose synced data: then an acknowledged checkpoint may be damaged, never wrong.
  bool is_damage_allowed = false;
  /// As the lives have it.
  std::uint64_t fold_every = kFoldEvery;
  /// Loses or damages one of the folds: nothing may come of it.
  void damage_a_fold(SimRandom& random);
  std::uint64_t acknowledged_count() const { return acknowledged_.size(); }
  std::uint64_t restored_count = 0;

 private:
  void fail(const std::string& what);

  SimWorld* world_;
  std::vector<SaveId> acknowledged_;  // in order
  std::set<std::uint32_t> fenced_;
  std::set<SaveId> half_removed_;  // the journal forgot that it condemned these
  bool is_a_fold_damaged_ = false;
};

/// What the state holds after `step` completed steps, whoever trained it.
std::uint64_t content_after(std::uint64_t step);

/// The body of one life: restore, train, save, close.
void live(SimProcess& me, const Life& life, Oracle& oracle);
/// Declares a slot void, as a person does who runs `unbroken doctor --void`.
Result<History> declare_void(SimProcess& me, std::uint64_t slot);
/// Reads the newest checkpoint, as an evaluation does.
void evaluate(SimProcess& me, std::uint64_t fold_every = kFoldEvery, Hold hold = Hold::nothing);
/// Does so under a pin, for a while, several times.
void evaluate_pinned(SimProcess& me, Duration pin_lasts, SimRandom random);

}  // namespace unbroken::toy
