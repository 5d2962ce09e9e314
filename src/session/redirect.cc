#include "session/redirect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

namespace unbroken {

std::string redirected(const Process& process, std::string_view directory) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<std::string>, std::less<>> seen;  // by UNBROKEN_DIR, in order
  const auto without_slash = [](std::string text) {
    while (text.size() > 1 && text.ends_with('/')) text.pop_back();
    return text;
  };
  std::string path = without_slash(std::string(directory));
  const auto moved = process.env("UNBROKEN_DIR");
  if (!moved || moved->empty()) return path;
  const std::string to = without_slash(*moved);
  const std::lock_guard lock(mutex);
  std::vector<std::string>& paths = seen[to];
  const auto found = std::find(paths.begin(), paths.end(), path);
  const auto k = static_cast<std::size_t>(found - paths.begin()) + 1;
  if (found == paths.end()) paths.push_back(path);
  return k == 1 ? to : fmt::format("{}.{}.{}", to, k, path.substr(path.rfind('/') + 1));
}

}  // namespace unbroken
