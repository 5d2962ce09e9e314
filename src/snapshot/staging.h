#pragma once
// A snapshot on its way into the arena. Most state is copied before begin() returns. Tensors that the caller
// names as *later* are copied by the compute lane while the caller goes on, until fence(): the boundary costs
// the hashes that prove afterwards that nobody wrote them meanwhile. What *arrives* comes from an
// accelerator. Where the arena has too little memory for all of it, a snapshot is *streamed*: everything is
// copied at once, by the caller, through a window that moves on as its bytes are written.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "snapshot/arena.h"
#include "snapshot/filling.h"
#include "snapshot/last_plan.h"
#include "snapshot/snapshot.h"
#include "snapshot/state_view.h"
#include "world/clock.h"

namespace unbroken {

/// A line for a person on tensors that somebody wrote while they were copied, or would have been.
std::string changed_text(const std::vector<std::string>& names);

/// Of the image of these tensors, and not much more than that.
std::uint64_t image_bytes_at_most(const std::vector<TensorView>& tensors);

class Staging {
 public:
  /// Waits for what is on its way into the memory.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  /// What is at once is copied by copy_at_once(), which has to follow. What arrives is on its way. Errors:
  /// bad_argument (a view that cannot be read, a name twice), unavailable (no memory, not even for a window,
  /// which what arrives never gets; or no room in the arena beside what is in use), those of Arrivals.
  /// `last`: of the save before, for the next. Threads: the caller's and the compute lane.
  static Result<std::shared_ptr<Staging>> begin(StateView state, Arena& arena, Executor& executor,
                                                CopyShared copy_shared, const Proof& proof = {},
                                                LastPlan* last = nullptr);

  /// Returns when the live state may change, but for what is later. Threads: the caller of begin().
  void copy_at_once();
  /// The shard file as it comes to be, and whether a part of it is final, though not yet proved. Threads:
  /// any.
  BufferRef image() const { return {slot_, *slot_}; }
  /// All of it is where the copying has failed: finish() says so, and nobody is to wait for what never comes.
  bool is_final(std::uint64_t begin, std::uint64_t end) const {
    return has_failed_.load() || filling_.is_filled(begin, end);
  }
  /// Why the snapshot is streamed, and what is missing; empty where it is not. Then written() or give_up()
  /// has to come for every byte that is final.
  const std::string& streamed_because() const { return streamed_because_; }
  bool is_streamed() const { return window_ != nullptr; }
  /// Bytes [begin, end) of the image, which is streamed, are written and never read again. Threads: any.
  void written(std::uint64_t begin, std::uint64_t end);
  /// Nothing more of it is going to be written. Where it is streamed and not all copied yet, finish() says
  /// why. Threads: any.
  void give_up(Error why);
  /// Every byte is copied, and looked at again as `proof` says; what `later` names may be written.
  bool is_copied() const { return are_filled() && looked_.load() == is_looked_at_.size(); }
  /// copy_at_once() copies all that there is.
  bool is_at_once() const { return at_once_ == units_.size(); }
  /// Copies what is left, together with whoever else does, and returns when all is copied, and has arrived.
  /// Threads: any.
  void copy();
  /// Names, sorted, of the tensors that differ by now from what they were. After copy() that does this save
  /// no harm; it tells that somebody writes them between two steps. Threads: any.
  std::vector<std::string> look_again();
  /// What was copied, proved and hashed. Calls copy(). Once. Errors: unavailable, where a tensor was written
  /// before it was copied: changed() names it then; those of Arrivals.
  Result<Snapshot> finish();
  const std::vector<std::string>& changed() const { return changed_; }
  /// Of all that is copied.
  bool is_finite() const { return filling_.is_finite(); }
  std::uint64_t later_bytes() const { return later_bytes_; }
  /// Every byte that is copied later is proved.
  bool is_proved_whole() const { return later_bytes_ > 0 && is_proved_whole_; }

 private:
  struct Space {
    std::shared_ptr<MutableBytes> slot;
    std::uint64_t window_bytes = 0;  // 0: it is memory as a whole
    std::string streamed_because = {};
  };
  static Result<Space> make_space(const StateView& state, std::uint64_t bytes, Arena& arena);
  Staging(StateView state, std::shared_ptr<const ShardPlan> plan, Space space, Executor& executor,
          CopyShared copy_shared);
  Result<> send(Arena& arena);
  bool are_filled() const { return filled_.load() == units_.size(); }
  Result<> await(std::size_t arrivals);
  void fail(Error error);
  void fill_once(std::size_t unit);
  void look_once(std::size_t mark);
  Result<> check_filled() const;

  const StateView state_;
  const std::shared_ptr<const ShardPlan> plan_;
  const std::shared_ptr<MutableBytes> slot_;
  const std::string streamed_because_;
  Executor& executor_;
  const std::unique_ptr<Window> window_;
  Filling filling_;
  const std::vector<Unit> units_;
  std::vector<std::atomic<bool>> taken_;  // by unit
  std::atomic<std::size_t> filled_{0};    // units
  std::size_t at_once_ = 0;               // units
  std::atomic<std::size_t> filled_at_once_{0};
  /// By mark, and one more for what the caller can tell; none where nothing is copied later.
  std::vector<std::atomic<bool>> is_looked_at_;
  std::atomic<std::size_t> looked_{0};   // of these
  std::size_t sent_ = 0;                 // of what arrives
  std::atomic<std::size_t> arrived_{0};  // of these
  std::atomic<bool> has_failed_{false};
  mutable std::mutex mutex_;
  std::optional<Error> error_;  // of the first that failed
  std::uint64_t later_bytes_ = 0;
  bool is_proved_whole_ = false;
  std::vector<std::string> changed_;
};

}  // namespace unbroken
