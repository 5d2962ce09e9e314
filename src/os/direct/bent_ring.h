#pragma once
// For tests only: a ring whose writes the kernel carries out otherwise than it was asked to, or does not
// take. What it answers is its own answer: a write that is cut short did write that much.
#include <linux/io_uring.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <functional>

#include "os/syscalls.h"

namespace unbroken {

/// One at a time, and one ring at a time, which it outlives.
class BentRing {
 public:
  BentRing() { current_ = this; }
  ~BentRing() { unmap(); }
  BentRing(const BentRing&) = delete;
  BentRing& operator=(const BentRing&) = delete;

  /// The real ones, but for those of the ring.
  static Syscalls calls() {
    Syscalls calls = kSyscalls;
    calls.io_uring_setup = setup;
    calls.io_uring_enter = enter;
    return calls;
  }

  /// Changes the n-th write, from 0, before the kernel takes it. Threads: those that write, one at a time.
  std::function<void(io_uring_sqe& write, unsigned n)> bend = {};
  /// The kernel refuses the write with this errno; 0: it takes it.
  std::function<int(unsigned n)> refuse = {};
  unsigned writes() const { return writes_.load(); }

 private:
  static int setup(unsigned entries, void* params) {
    const int ring = kSyscalls.io_uring_setup(entries, params);
    if (ring < 0) return ring;
    current_->unmap();
    current_->made_ = *static_cast<io_uring_params*>(params);
    current_->queue_ = map(ring, current_->queue_bytes(), IORING_OFF_SQ_RING);
    current_->entries_ = map(ring, current_->entries_bytes(), IORING_OFF_SQES);
    return ring;
  }
  static int enter(int ring, unsigned submitted, unsigned awaited, unsigned flags) {
    if (submitted > 0 && current_->newest().opcode != IORING_OP_NOP) {
      const unsigned n = current_->writes_.fetch_add(1);
      const int refused = current_->refuse ? current_->refuse(n) : 0;
      if (refused != 0) return errno = refused, -1;
      if (current_->bend) current_->bend(current_->newest(), n);
    }
    return kSyscalls.io_uring_enter(ring, submitted, awaited, flags);
  }
  static void* map(int ring, std::size_t bytes, off_t what) {
    return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, what);
  }
  void unmap() {
    if (queue_ != nullptr) ::munmap(queue_, queue_bytes());
    if (entries_ != nullptr) ::munmap(entries_, entries_bytes());
  }
  std::size_t queue_bytes() const { return made_.sq_off.array + made_.sq_entries * sizeof(unsigned); }
  std::size_t entries_bytes() const { return made_.sq_entries * sizeof(io_uring_sqe); }
  unsigned number_at(unsigned offset) const {
    return *reinterpret_cast<unsigned*>(static_cast<std::byte*>(queue_) + offset);
  }
  io_uring_sqe& newest() const {
    const unsigned slot = (number_at(made_.sq_off.tail) - 1) & number_at(made_.sq_off.ring_mask);
    return static_cast<io_uring_sqe*>(entries_)[slot];
  }

  static inline BentRing* current_ = nullptr;
  io_uring_params made_{};
  void* queue_ = nullptr;
  void* entries_ = nullptr;
  std::atomic<unsigned> writes_ = 0;
};

}  // namespace unbroken
