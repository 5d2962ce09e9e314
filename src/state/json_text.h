#pragma once
// Canonical JSON written straight into a string, for what is too large to build as a Json first.
#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace unbroken {

/// A text in quotes, escaped as base/json.h does it. `text` is UTF-8.
inline void put_text(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // begin of the run that needs no escape
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    static constexpr std::string_view kNamed = "\"\\\b\t\n\f\r", kLetters = "\"\\btnfr";
    const std::size_t which = kNamed.find(static_cast<char>(c));
    out += '\\';
    out += which == std::string_view::npos ? fmt::format("u{:04x}", c) : std::string(1, kLetters[which]);
  }
  out.append(text, plain, text.size() - plain);
  out += '"';
}

inline void put_number(std::string& out, std::uint64_t number) {
  const fmt::format_int digits(number);
  out.append(digits.data(), digits.size());
}

/// "[1,2,3]".
inline void put_numbers(std::string& out, std::span<const std::uint64_t> numbers) {
  out += '[';
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i != 0) out += ',';
    put_number(out, numbers[i]);
  }
  out += ']';
}

}  // namespace unbroken
