#pragma once
// Whole reads and writes of plain files: short counts and interruptions end here. Faster engines stand beside
// this one, behind Fs::write_at.
#include <cstdint>

#include "base/bytes.h"
#include "os/syscalls.h"

namespace unbroken {

/// All of `data`, or the errno of the failure; 0 is success. ENOSPC where the system accepts no byte.
int write_whole_at(const Syscalls& calls, int file, std::uint64_t offset, Bytes data);

struct ReadCount {
  std::uint64_t bytes = 0;
  int error = 0;
};
/// Until `into` is full or the file ends.
ReadCount read_whole_at(const Syscalls& calls, int file, std::uint64_t offset, MutableBytes into);

}  // namespace unbroken
