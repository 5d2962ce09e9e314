#pragma once
// Writes that the kernel carries out by itself (io_uring): nobody waits in a system call for each. Not faster
// than several threads where a write is large, but cheaper.
#include <cstdint>
#include <functional>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "os/syscalls.h"

namespace unbroken {

/// Threads: any. In a forked child nothing of it works, and nothing is waited for.
class Ring {
 public:
  /// Told how many bytes were written, which may be fewer than asked for, or -errno.
  using Told = std::function<void(int)>;

  /// Errors: unsupported, where the kernel has none or does not let us (ENOSYS, EPERM, ENOMEM).
  static Result<std::unique_ptr<Ring>> open(const Syscalls& calls, unsigned depth);
  /// Waits for what is on its way.
  ~Ring();
  /// Waits while `depth` are on their way. `told` is called once, by a thread of the ring, or by the caller's
  /// where the kernel takes none; `data` stays until then.
  void write(int file, std::uint64_t offset, Bytes data, Told told);
  /// Returns once every write to `file` that was begun before was told of.
  void settle(int file);

 private:
  struct Impl;
  explicit Ring(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace unbroken
