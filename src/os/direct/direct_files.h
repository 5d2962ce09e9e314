#pragma once
// The second descriptors (O_DIRECT) of files that are moved past the cache of the machine.
#include <map>
#include <mutex>

#include "os/descriptor.h"
#include "os/direct/file_io.h"

namespace unbroken {

/// Threads: any.
class DirectFiles {
 public:
  /// `direct` is open on the same file as `file`.
  void add(int file, Descriptor direct);
  /// Before `file` is closed.
  void remove(int file);
  /// `file` and the descriptor that was added to it.
  OpenFile of(int file) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, Descriptor> direct_;
};

}  // namespace unbroken
