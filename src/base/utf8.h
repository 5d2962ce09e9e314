#pragma once
// UTF-8 (RFC 3629), and text that is fit for one line of a terminal.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace unbroken {

/// True for well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(std::string_view text) noexcept;
/// The code point of a C0, DEL or C1 control character at the front of `text`, which is not empty.
std::optional<unsigned> control_at(std::string_view text) noexcept;
/// `text` as it can be shown in one line, whoever wrote it: control characters and bytes that are no UTF-8 as
/// `\x1b`, line separators and what reorders a line (the bidirectional controls of Unicode) as `\u202e`.
std::string printable(std::string_view text);
/// Each line of `text` so; the ends of lines stay.
std::string printable_lines(std::string_view text);

}  // namespace unbroken
