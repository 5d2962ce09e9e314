#include "os/machine/large_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/pages.h"

namespace unbroken {
namespace {

/// New memory of the system's own; how much of it the kernel marked for large pages.
std::uint64_t marked_of(std::uint64_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  // As an allocator gives it: not at the beginning of a page.
  wish_large_pages({static_cast<std::byte*>(memory) + 64, bytes - 64});
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  std::ifstream maps("/proc/self/smaps");
  std::uint64_t marked = 0, from = 0, to = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long first = 0, last = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &first, &last) == 2) {
      from = std::max<std::uint64_t>(first, begin);
      to = std::min<std::uint64_t>(last, begin + bytes);
    }
    if (line.starts_with("VmFlags:") && line.find(" hg") != std::string::npos && from < to)
      marked += to - from;
  }
  ::munmap(memory, bytes);
  return marked;
}

TEST(LargePages, AreWishedForInsideLargeMemoryAlone) {
  if (marked_of(16 * Pages::kLargeBytes) == 0) GTEST_SKIP() << "this kernel takes no wishes";
  EXPECT_EQ(marked_of(16 * Pages::kLargeBytes), 16 * Pages::kLargeBytes - Pages::kBytes);
  EXPECT_EQ(marked_of(Pages::kLargeBytes), 0u);
  wish_large_pages({});
}

}  // namespace
}  // namespace unbroken
