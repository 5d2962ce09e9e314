#pragma once
// Named points where `unbroken drill --at points` and the simulator may kill. They stay in release builds;
// one costs a relaxed load.
#include <atomic>

namespace unbroken {

using PointHook = void (*)(const char* name);
inline std::atomic<PointHook> point_hook{nullptr};

/// UNBROKEN_POINT("commit.before_append");
#define UNBROKEN_POINT(name)                                                                               \
  do {                                                                                                     \
    if (auto* const unbroken_hook = ::unbroken::point_hook.load(std::memory_order_relaxed); unbroken_hook) \
      unbroken_hook(name);                                                                                 \
  } while (0)

}  // namespace unbroken
