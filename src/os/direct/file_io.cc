#include "os/direct/file_io.h"

#include <algorithm>
#include <cerrno>

#include "base/pages.h"

namespace unbroken {
namespace {

// Linux moves at most this much in one call (MAX_RW_COUNT).
constexpr std::size_t kCallBytes = 0x7ffff000;

/// The next call of a transfer.
struct Part {
  int file;
  std::size_t count;
};

/// Direct as far as offset, memory and count are aligned; the rest through the cache.
Part next_part(const OpenFile& file, std::uint64_t offset, Bytes data) {
  const std::size_t direct = direct_part(file, offset, data).size();
  if (direct > 0) return {file.direct, direct};
  return {file.plain, std::min(data.size(), kCallBytes)};
}

/// Does the transfer go on after a call that failed? A device that wants more alignment than we keep says
/// EINVAL: the file is plain from here on.
bool is_taken_again(OpenFile& file, const Part& part) {
  if (errno == EINTR) return true;
  if (errno != EINVAL || part.file != file.direct) return false;
  file.direct = -1;
  return true;
}

}  // namespace

Bytes direct_part(const OpenFile& file, std::uint64_t offset, Bytes data) {
  const bool is_aligned =
      offset % Pages::kBytes == 0 && reinterpret_cast<std::uintptr_t>(data.data()) % Pages::kBytes == 0;
  if (file.direct < 0 || !is_aligned) return {};
  return data.first(std::min(data.size(), kCallBytes) / Pages::kBytes * Pages::kBytes);
}

int write_whole_at(const Syscalls& calls, OpenFile file, std::uint64_t offset, Bytes data) {
  while (!data.empty()) {
    const Part part = next_part(file, offset, data);
    const ssize_t moved = calls.pwrite(part.file, data.data(), part.count, static_cast<off_t>(offset));
    if (moved < 0 && is_taken_again(file, part)) continue;
    if (moved < 0) return errno;
    if (moved == 0) return ENOSPC;
    offset += static_cast<std::uint64_t>(moved);
    data = data.subspan(static_cast<std::size_t>(moved));
  }
  return 0;
}

ReadCount read_whole_at(const Syscalls& calls, OpenFile file, std::uint64_t offset, MutableBytes into) {
  ReadCount read;
  while (read.bytes < into.size()) {
    const MutableBytes rest = into.subspan(read.bytes);
    const Part part = next_part(file, offset + read.bytes, rest);
    const ssize_t moved =
        calls.pread(part.file, rest.data(), part.count, static_cast<off_t>(offset + read.bytes));
    if (moved < 0 && is_taken_again(file, part)) continue;
    if (moved < 0) read.error = errno;
    if (moved <= 0) break;
    read.bytes += static_cast<std::uint64_t>(moved);
  }
  return read;
}

}  // namespace unbroken
