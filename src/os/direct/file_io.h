#pragma once
// Whole reads and writes of plain files: short counts and interruptions end here. What is aligned goes past
// the cache of the machine where the file has a descriptor for that. Faster engines stand beside this one,
// behind Fs::write_at.
#include <cstdint>

#include "base/bytes.h"
#include "os/syscalls.h"

namespace unbroken {

/// One file, open in two ways.
struct OpenFile {
  int plain;
  int direct = -1;  ///< with O_DIRECT; -1: there is none
};

/// What of `data` can go past the cache in one call, from its beginning; nothing where that is not aligned.
Bytes direct_part(const OpenFile& file, std::uint64_t offset, Bytes data);

/// All of `data`, or the errno of the failure; 0 is success. ENOSPC where the system accepts no byte.
int write_whole_at(const Syscalls& calls, OpenFile file, std::uint64_t offset, Bytes data);

struct ReadCount {
  std::uint64_t bytes = 0;
  int error = 0;
};
/// Until `into` is full or the file ends.
ReadCount read_whole_at(const Syscalls& calls, OpenFile file, std::uint64_t offset, MutableBytes into);

}  // namespace unbroken
