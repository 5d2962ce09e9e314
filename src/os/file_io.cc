#include "os/file_io.h"

#include <algorithm>
#include <cerrno>

namespace unbroken {
namespace {

// Linux moves at most this much in one call (MAX_RW_COUNT).
constexpr std::size_t kCallBytes = 0x7ffff000;

}  // namespace

int write_whole_at(const Syscalls& calls, int file, std::uint64_t offset, Bytes data) {
  while (!data.empty()) {
    const std::size_t count = std::min(data.size(), kCallBytes);
    const ssize_t moved = calls.pwrite(file, data.data(), count, static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return errno;
    if (moved == 0) return ENOSPC;
    offset += static_cast<std::uint64_t>(moved);
    data = data.subspan(static_cast<std::size_t>(moved));
  }
  return 0;
}

ReadCount read_whole_at(const Syscalls& calls, int file, std::uint64_t offset, MutableBytes into) {
  ReadCount read;
  while (read.bytes < into.size()) {
    const std::size_t count = std::min<std::size_t>(into.size() - read.bytes, kCallBytes);
    const ssize_t moved =
        calls.pread(file, into.data() + read.bytes, count, static_cast<off_t>(offset + read.bytes));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) read.error = errno;
    if (moved <= 0) break;
    read.bytes += static_cast<std::uint64_t>(moved);
  }
  return read;
}

}  // namespace unbroken
