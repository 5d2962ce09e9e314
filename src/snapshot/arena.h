#pragma once
// Memory for snapshots: a few slots, each as large as the largest snapshot so far, kept and reused. A page
// that was touched before is several times faster to copy into than a fresh one.
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
  /// Calls `prepare` with all the memory of a slot in use, where it was not called for this memory before,
  /// and keeps what it returns until just before the memory is given back.
  void prepare(const MutableBytes& memory, const std::function<std::shared_ptr<void>(MutableBytes)>& prepare);
  /// Whether acquire() gives something else than null.
  bool has_room(std::uint64_t bytes) const;
  /// Memory held, in use or not.
  std::uint64_t bytes() const;

 private:
  Arena(unsigned slots, ArenaLimits limits) : slots_(slots), limits_(std::move(limits)) {}
  struct Slot {
    Pages memory;
    std::shared_ptr<void> prepared;  // goes before the memory
    bool is_used = false;
  };
  /// Of those that are free the one to take for so many bytes, else slots_.size(); with the mutex held, as
  /// all that follow.
  std::size_t choose(std::uint64_t bytes) const;
  std::uint64_t used_bytes() const;
  /// What keeps a slot from becoming so large once nothing but the slots in use is held; empty: nothing.
  std::string hindrance(std::uint64_t bytes) const;
  void release(std::size_t slot);

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  ArenaLimits limits_;
};

}  // namespace unbroken
