#pragma once
// Memory for snapshots: a few slots, each as large as the largest snapshot so far, kept and reused. A page
// that was touched before is several times faster to copy into than a fresh one.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "base/pages.h"
#include "base/result.h"

namespace unbroken {

/// Threads: any.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  static std::shared_ptr<Arena> make(unsigned slots) { return std::shared_ptr<Arena>(new Arena(slots)); }
  /// Bytes aligned for direct I/O (Pages) that go back to the arena when the last owner drops them; null
  /// while every slot is in use. Errors: unavailable (no memory).
  Result<std::shared_ptr<MutableBytes>> acquire(std::uint64_t bytes);
  bool has_free_slot() const;
  /// Calls `prepare` with all the memory of a slot in use, where it was not called for this memory before,
  /// and keeps what it returns until just before the memory is given back.
  void prepare(const MutableBytes& memory, const std::function<std::shared_ptr<void>(MutableBytes)>& prepare);
  /// Memory held, in use or not.
  std::uint64_t bytes() const;

 private:
  explicit Arena(unsigned slots) : slots_(slots) {}
  struct Slot {
    Pages memory;
    std::shared_ptr<void> prepared;  // goes before the memory
    bool is_used = false;
  };
  std::size_t choose(std::uint64_t bytes) const;
  void release(std::size_t slot);

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
};

}  // namespace unbroken
