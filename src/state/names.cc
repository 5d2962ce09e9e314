#include "state/names.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "state/tree.h"

namespace unbroken {

namespace {

std::string escape(std::string_view key, bool is_quoted) {
  std::string out;
  out.reserve(key.size() + 2);
  while (!key.empty()) {
    const char c = key.front();
    if (const auto control = control_at(key)) {
      out += fmt::format("\\x{:02x}", *control);
      key.remove_prefix(*control >= 0x80 ? 2 : 1);
      continue;
    }
    if (c == '.' || c == '\\' || (is_quoted && c == '"')) out += '\\';
    out += c;
    key.remove_prefix(1);
  }
  return out;
}

bool looks_like_integer(std::string_view key) {
  if (key.starts_with('-')) key.remove_prefix(1);
  return !key.empty() && key.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string segment_of(std::string_view key) {
  const bool is_quoted = key.empty() || key.front() == '"' || key.front() == '(' || looks_like_integer(key);
  if (!is_quoted) return escape(key, false);
  return '"' + escape(key, true) + '"';
}

std::string segment_of_index(std::uint64_t index) {
  return fmt::format("{}", index);
}

std::string segment_of_key(const Node& key) {
  if (const auto* text = std::get_if<std::string>(&key.value)) return segment_of(*text);
  if (const auto* number = std::get_if<std::int64_t>(&key.value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<std::uint64_t>(&key.value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<BigInt>(&key.value)) return number->decimal;
  return '(' + escape(tree_text(key), false) + ')';
}

std::string join_name(std::string_view prefix, std::string_view segment) {
  std::string name;
  name.reserve(prefix.size() + 1 + segment.size());
  name += prefix;
  if (!prefix.empty()) name += '.';
  name += segment;
  return name;
}

Result<> check_name(std::string_view name) {
  if (name.empty()) return Error(Code::bad_argument, "a name is empty");
  if (name.size() > kNameBytesMax)
    return Error(Code::bad_argument,
                 fmt::format("a name has {} bytes, at most {} are allowed: {}...", name.size(), kNameBytesMax,
                             to_hex(as_bytes(name.substr(0, 16)))));
  if (!is_utf8(name))
    return Error(Code::bad_argument, fmt::format("a name is not UTF-8: {}", to_hex(as_bytes(name))));
  if (name == "__metadata__") return Error(Code::bad_argument, "\"__metadata__\" may not name a tensor");
  for (std::size_t i = 0; i < name.size(); ++i)
    if (control_at(name.substr(i)))
      return Error(Code::bad_argument,
                   fmt::format("a name holds a control character: {}", escape(name, true)));
  return Done{};
}

}  // namespace unbroken
