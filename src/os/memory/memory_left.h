#pragma once
// How much memory this process can still have before somebody is killed for it.
#include <cstdint>
#include <string>

namespace unbroken {

/// Bytes: the least of MemAvailable of the machine (proc(5)) and of what is left below the limit of each
/// memory cgroup that holds this process, page cache that can go counted as left (cgroups(7), version 1 and
/// 2). UINT64_MAX where none of them can be read. `root`: where /proc and /sys are, for tests.
std::uint64_t memory_left(const std::string& root = "");

}  // namespace unbroken
