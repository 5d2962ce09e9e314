#include "os/machine/large_pages.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/pages.h"

namespace unbroken {

void wish_large_pages(MutableBytes memory) {
  if (memory.size() < 2 * Pages::kLargeBytes) return;
  const std::uint64_t before = -reinterpret_cast<std::uintptr_t>(memory.data()) % Pages::kBytes;
  const std::uint64_t bytes = (memory.size() - before) / Pages::kBytes * Pages::kBytes;
  static_cast<void>(::madvise(memory.data() + before, bytes, MADV_HUGEPAGE));
}

}  // namespace unbroken
