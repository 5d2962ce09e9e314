#pragma once
// Names of tensors and of state: the attach name, then the path, joined by '.'. Two different paths never
// have one name. A name is text for people and keys in files; it is never a path on a disk.
//
// One key of a path becomes one *segment*:
//   - an integer key, or an index of a list: its decimal digits, `3`, `-1`;
//   - a text key: itself, with '.' and '\' preceded by '\', and a control character as `\x0a`;
//   - a text key that would read as something else (it is empty, looks like an integer, or begins with '"' or
//     '('): the same in double quotes, with '"' inside preceded by '\';
//   - any other key (None, true, a float, a tuple, ...): its canonical JSON in parentheses, escaped as above.
// Source: docs/format/state.md, "Names".
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace unbroken {

struct Node;

inline constexpr std::size_t kNameBytesMax = 1024;

/// Segment of a text key. `key` is UTF-8.
std::string segment_of(std::string_view key);
std::string segment_of_index(std::uint64_t index);
/// Segment of any key of a dict.
std::string segment_of_key(const Node& key);

/// "a" and "b" -> "a.b"; an empty prefix gives the segment alone.
std::string join_name(std::string_view prefix, std::string_view segment);

/// Errors: bad_argument (empty, over kNameBytesMax, not UTF-8, holds a control character,
/// "__metadata__").
Result<> check_name(std::string_view name);

}  // namespace unbroken
