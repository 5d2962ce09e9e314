#pragma once
// The image of a shard while it is filled: every byte is copied, hashed and looked at in one pass, in pieces
// that fit the processor's cache.
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "format/shard.h"
#include "snapshot/state_view.h"
#include "snapshot/window.h"
#include "world/executor.h"

namespace unbroken {

/// Copies memory that another thread may give back to the system meanwhile. False where it did, or where no
/// such copy can be made. Threads: any.
using CopyShared = std::function<bool(const std::byte* from, MutableBytes into)>;

/// Which share of each piece of the tensors that are copied later is hashed beforehand, to prove that nobody
/// wrote them meanwhile: of `every` slices, or as many as hold a page each, the one numbered `first` in turn.
/// So what is written as a whole shows it wherever it was copied meanwhile.
struct Proof {
  std::uint64_t every = 1, first = 0;
};

/// Neighbours in the file that one worker copies: up to 4 MiB, or one tensor that is larger. All of a unit
/// are copied at once, or all later, or all arrive.
struct Unit {
  std::size_t begin, end;  // positions in file order
  bool is_later;           // after the caller went on
  std::size_t arrivals;    // how many of places() are filled when the unit is; 0: none of its own
};

/// Threads: fill() any, of different units; the others when no fill() runs.
class Filling {
 public:
  /// `state` and `plan` outlive it. `window`: of the image, where there is one; units are filled in order
  /// then, one at a time.
  Filling(const StateView& state, const ShardPlan& plan, MutableBytes image, Window* window,
          CopyShared copy_shared, Executor& executor);

  std::vector<Unit> units() const;
  /// Of the tensors that arrive, in file order.
  std::vector<Arrivals::Place> places() const;
  /// Before the caller goes on: hashes the slices of `proof` where they stand.
  Result<> mark(const Proof& proof, Executor& executor);
  std::size_t mark_count() const { return marked_.size(); }
  /// Looks at a slice again where it stands: true where it is what it was.
  bool is_unwritten(std::size_t mark) const;
  /// The tensor of a slice was written; it is among changed(). Threads: any.
  void note_written(std::size_t mark) { note_changed(marked_[mark].first); }
  /// What was copied at once may change.
  void note_changed(std::size_t tensor) { is_changed_[tensor].store(is_later_[tensor] != 0); }
  const std::string& name_of(std::size_t mark) const { return state_.tensors[marked_[mark].first].name; }
  /// What arrives has to be there. False: the window was closed before all was filled.
  bool fill(const Unit& unit);
  /// Are all bytes [begin, end) of the image filled? Executor::notify() tells of each 8 MiB. Threads: any.
  bool is_filled(std::uint64_t begin, std::uint64_t end) const;
  /// When every unit is filled: the chunks that no single tensor fills.
  Result<> hash_rest(Executor& executor);

  std::vector<Xxh128>& digests() { return digests_; }  ///< by tensor
  std::vector<Xxh128>& chunks() { return chunks_; }
  bool is_finite() const { return is_finite_.load(); }
  /// Names of the tensors that were not copied as they stood at mark(), sorted.
  std::vector<std::string> changed() const;

 private:
  /// A slice as it stood at mark(): where in the file, and its hash.
  struct Mark {
    std::uint64_t begin, end;
    Xxh128 digest = {};
    std::uint64_t bytes() const { return end - begin; }
  };
  std::uint64_t end_of(std::size_t tensor) const { return plan_.offsets[tensor] + plan_.bytes[tensor]; }
  bool fill_tensor(std::size_t tensor, XxhStream& stream);
  std::uint64_t chunk_end(std::size_t chunk) const;
  void hash_chunk(std::size_t chunk);
  bool copy_piece(std::size_t tensor, std::uint64_t at, MutableBytes piece) const;
  const std::byte* live(std::size_t tensor, std::uint64_t at) const {
    return static_cast<const std::byte*>(state_.tensors[tensor].data) + (at - plan_.offsets[tensor]);
  }

  const StateView& state_;
  const ShardPlan& plan_;
  const MutableBytes image_;
  Window* const window_;
  const CopyShared copy_shared_;
  Executor& executor_;
  std::vector<std::atomic<std::uint64_t>> filled_to_;        // by tensor: where in the file
  std::vector<char> is_parameter_, is_later_, is_arriving_;  // by tensor
  std::vector<std::vector<Mark>> marks_;                     // by tensor
  std::vector<std::pair<std::size_t, Mark*>> marked_;        // all of them, with their tensor
  std::vector<std::atomic<bool>> is_changed_;                // by tensor
  std::vector<Xxh128> digests_, chunks_;
  std::vector<char> is_hashed_;  // by chunk; each is set by the one worker that fills that chunk alone
  std::atomic<bool> is_finite_ = true;
};

}  // namespace unbroken
