#include "world/store.h"

#include <fmt/format.h>

namespace unbroken {

Result<> check_key(std::string_view key) {
  const auto bad = [&](std::string_view why) {
    return Error(Code::bad_argument, fmt::format("key \"{}\": {}", key, why));
  };
  if (key.empty() || key.size() > 200) return bad("has 1 to 200 bytes");
  std::size_t segment_bytes = 0;
  for (std::size_t i = 0; i <= key.size(); ++i) {
    if (i == key.size() || key[i] == '/') {
      const std::string_view segment = key.substr(i - segment_bytes, segment_bytes);
      if (segment.empty() || segment == "." || segment == "..") return bad("has an empty or dotted segment");
      segment_bytes = 0;
      continue;
    }
    const char c = key[i];
    const bool is_allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                            c == '.' || c == '_' || c == '-';
    if (!is_allowed) return bad("has a character outside [A-Za-z0-9._-/]");
    ++segment_bytes;
  }
  return Done{};
}

}  // namespace unbroken
