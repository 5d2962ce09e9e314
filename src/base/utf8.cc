#include "base/utf8.h"

#include <fmt/format.h>

namespace unbroken {

namespace {

/// Bytes of the well-formed character at the front of `text`; 0 where it is none.
std::size_t utf8_length(std::string_view text) noexcept {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return at(i) >= low && at(i) <= high;
  };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const unsigned low = lead == 0xe0 ? 0xa0 : 0x80;   // no overlong form
    const unsigned high = lead == 0xed ? 0x9f : 0xbf;  // no surrogate
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const unsigned low = lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xf4 ? 0x8f : 0xbf;  // up to U+10FFFF
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

/// Of a well-formed character of three bytes.
unsigned code_point(std::string_view three) noexcept {
  const auto low_bits = [&](std::size_t i, unsigned mask) {
    return static_cast<unsigned char>(three[i]) & mask;
  };
  return low_bits(0, 0x0f) << 12 | low_bits(1, 0x3f) << 6 | low_bits(2, 0x3f);
}

bool disturbs_a_line(unsigned point) noexcept {
  return point == 0x200e || point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::optional<unsigned> control_at(std::string_view text) noexcept {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x20 || first == 0x7f) return first;
  if (first == 0xc2 && text.size() > 1) {
    const auto second = static_cast<unsigned char>(text[1]);
    if (second >= 0x80 && second <= 0x9f) return second;
  }
  return std::nullopt;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (const auto control = control_at(text)) {
      out += fmt::format("\\x{:02x}", *control);
    } else if (length == 3 && disturbs_a_line(code_point(text))) {
      out += fmt::format("\\u{:04x}", code_point(text));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    out += printable(text.substr(0, end)) + '\n';
    text.remove_prefix(end + 1);
  }
  return out + printable(text);
}

}  // namespace unbroken
