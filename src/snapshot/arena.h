#pragma once
// Memory for snapshots: a few slots, each as large as the largest snapshot so far, kept and reused. A page
// that was touched before is several times faster to copy into than a fresh one, so a slot can be reserved
// and touched before there is a snapshot. A snapshot for which there is too little memory gets addresses
// only, and a window of them that may be in memory at a time.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/pages.h"
#include "base/result.h"

namespace unbroken {

struct ArenaLimits {
  std::uint64_t bytes_max = std::numeric_limits<std::uint64_t>::max();  ///< of all slots together
  /// Memory that this process can still have; asked where a slot has to grow. Empty: not known.
  std::function<std::uint64_t()> left = {};
  /// A window has at least so many bytes, and no more than so many. None: no snapshot gets one.
  std::uint64_t window_bytes_min = std::numeric_limits<std::uint64_t>::max(), window_bytes_max = 0;
};

/// Threads: any.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  static std::shared_ptr<Arena> make(unsigned slots, ArenaLimits limits = {}) {
    return std::shared_ptr<Arena>(new Arena(slots, std::move(limits)));
  }
  /// Bytes aligned for direct I/O (Pages) that go back to the arena when the last owner drops them; null
  /// where there is no room beside the slots in use. Errors: unavailable (more than the limits, or than there
  /// is memory).
  Result<std::shared_ptr<MutableBytes>> acquire(std::uint64_t bytes);
  /// Bytes that nobody has touched, and that are gone when the last owner drops them.
  struct Windowed {
    std::shared_ptr<MutableBytes> memory;
    std::uint64_t window_bytes;   ///< so many of them may be touched at a time
    std::uint64_t missing_bytes;  ///< with so much more, acquire() would give all of them
  };
  /// For what acquire() refuses. Errors: unavailable (there is not even so much as a window takes).
  Result<Windowed> acquire_windowed(std::uint64_t bytes);
  /// Calls `prepare` with all the memory of a slot in use, where it was not called for this memory before,
  /// and keeps what it returns until just before the memory is given back.
  void prepare(const MutableBytes& memory, const std::function<std::shared_ptr<void>(MutableBytes)>& prepare);
  /// Makes a slot of this size ahead of the first snapshot, for touch_some(). False, and there is none, where
  /// it could be missed: as much again has to stay, and what the caller is going to need besides.
  bool reserve(std::uint64_t bytes, std::uint64_t needed_besides);
  /// Takes memory for a piece of what was reserved. False: nothing is left to touch, since all of it is, a
  /// snapshot came, which touches what it needs, or memory got short. Nobody waits for it. Threads: one.
  bool touch_some();
  /// Whether acquire() gives something else than null.
  bool has_room(std::uint64_t bytes) const;
  /// Memory held, in use or not.
  std::uint64_t bytes() const;

 private:
  Arena(unsigned slots, ArenaLimits limits) : slots_(slots), limits_(std::move(limits)) {}
  struct Slot {
    std::shared_ptr<const Pages> memory;  // also of touch_some(), until it is done with a piece
    std::shared_ptr<void> prepared;       // goes before the memory
    bool is_used = false, is_windowed = false;
    /// Of the memory; less than its size where it is reserved, or windowed.
    std::uint64_t held_bytes = 0;
    std::uint64_t bytes() const { return memory ? memory->size() : 0; }
  };
  using Lock = std::unique_lock<std::mutex>;
  /// The one that is to be touched; null: none.
  Slot* reserved();
  /// Of those that are free the one to take for so many bytes, else slots_.size(); with the mutex held, as
  /// all that follow.
  std::size_t choose(std::uint64_t bytes) const;
  std::uint64_t used_bytes() const;
  /// Memory of the machine, once nothing but the slots in use is held.
  std::uint64_t left_bytes() const;
  /// What keeps a slot from becoming so large once nothing but the slots in use is held; empty: nothing.
  std::string hindrance(std::uint64_t bytes) const;
  /// Gives a slot memory of this size. All that is not in use goes before, so that it never stands side by
  /// side with that; the mutex is let go of meanwhile.
  Result<> map(Slot& slot, std::uint64_t bytes, Lock& lock);
  std::shared_ptr<MutableBytes> hand_out(std::size_t slot, std::uint64_t bytes);
  void release(std::size_t slot);

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  ArenaLimits limits_;
};

}  // namespace unbroken
