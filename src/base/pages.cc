#include "base/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace unbroken {

namespace {

/// Zeros at a multiple of `alignment`, a multiple of it long; null where there is no memory.
std::byte* map_aligned(std::uint64_t bytes, std::uint64_t alignment) {
  void* const mapped =
      ::mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::uint64_t before = -reinterpret_cast<std::uintptr_t>(begin) % alignment;
  if (before > 0) ::munmap(begin, before);
  if (before < alignment) ::munmap(begin + before + bytes, alignment - before);
  return begin + before;
}

}  // namespace

void Pages::Unmap::operator()(std::byte* memory) const {
  ::munmap(memory, bytes);
}

Pages Pages::make(std::uint64_t bytes) {
  const std::uint64_t alignment = bytes < kLargeBytes / 2 ? kBytes : kLargeBytes;
  Pages out;
  if (bytes > (std::uint64_t{1} << 62)) return out;
  const std::uint64_t size = std::max<std::uint64_t>(1, (bytes + alignment - 1) / alignment) * alignment;
  std::byte* const memory = map_aligned(size, alignment);
  if (memory == nullptr) return out;
  if (alignment == kLargeBytes) {
    // Wishes: a kernel that does not know them goes on without.
    static_cast<void>(::madvise(memory, size, MADV_HUGEPAGE));
    static_cast<void>(::madvise(memory, size, MADV_DONTDUMP));
  }
  out.memory_ = {memory, Unmap{size}};
  return out;
}

bool Pages::touch(MutableBytes pages) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which headers before those of Linux 5.14 lack
  return ::madvise(pages.data(), pages.size(), kPopulateWrite) == 0;
}

bool Pages::give_back(MutableBytes pages) {
  return ::madvise(pages.data(), pages.size(), MADV_DONTNEED) == 0;
}

}  // namespace unbroken
