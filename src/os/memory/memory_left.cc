#include "os/memory/memory_left.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace unbroken {

namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// The number after `key` in a file of lines "KEY NUMBER"; the first one in it where `key` is empty.
std::optional<std::uint64_t> number_in(const std::string& path, std::string_view key = "") {
  std::ifstream file(path);
  for (std::string word; key.empty() || file >> word;) {
    std::uint64_t number = 0;
    if (key.empty() || word == key) return file >> number ? std::optional(number) : std::nullopt;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

/// What the files of a version of cgroups are called.
struct Names {
  std::string_view mount, limit, used, cache;
};
constexpr Names kSecond{"/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file"};
constexpr Names kFirst{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                       "total_inactive_file"};

/// Of one cgroup; no number: it has no limit, or is not to be seen from here.
std::uint64_t left_in(const std::string& folder, const Names& names) {
  const auto limit = number_in(folder + std::string(names.limit));
  const auto used = number_in(folder + std::string(names.used));
  if (!limit || !used) return kUnlimited;
  const std::uint64_t cache = std::min(*used, number_in(folder + "/memory.stat", names.cache).value_or(0));
  return *limit - std::min(*limit, *used - cache);
}

/// Of the cgroup at `path` and all that it lies in.
std::uint64_t left_up_from(std::string path, const std::string& root, const Names& names) {
  const std::string mount = root + std::string(names.mount);
  std::uint64_t left = kUnlimited;
  for (;; path.resize(path.rfind('/'))) {
    left = std::min(left, left_in(mount + path, names));
    if (path.rfind('/') == std::string::npos) return left;
  }
}

}  // namespace

std::uint64_t memory_left(const std::string& root) {
  std::uint64_t left = kUnlimited;
  if (const auto kib = number_in(root + "/proc/meminfo", "MemAvailable:")) left = *kib * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/a/b", or "0::/a/b" of version 2
    const std::size_t second = line.find(':', line.find(':') + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(line.find(':') + 1, second - line.find(':') - 1) + ",";
    const std::string path = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    if (controllers == ",,") left = std::min(left, left_up_from(path, root, kSecond));
    if (controllers.find(",memory,") != std::string::npos)
      left = std::min(left, left_up_from(path, root, kFirst));
  }
  return left;
}

}  // namespace unbroken
