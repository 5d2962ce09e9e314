#include "chart/text.h"

#include <fmt/format.h>

namespace unbroken {

namespace {

constexpr std::string_view kUnknown = "\xef\xbf\xbd";

/// Length of the well-formed character at the front; 0: there is none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t count = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < count) return 0;
  for (std::size_t i = 1; i < count; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool is_wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_wrong ? 0 : count;
}

/// U+0080 to U+009F; U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069.
bool is_invisible(std::string_view character) {
  if (character.size() == 2) return character[0] == '\xc2' && static_cast<unsigned char>(character[1]) < 0xa0;
  if (character.size() != 3 || character[0] != '\xe2') return false;
  const auto second = static_cast<unsigned char>(character[1]),
             third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 && (third == 0x8e || third == 0x8f || (third >= 0xaa && third <= 0xae))) ||
         (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

}  // namespace

std::string escaped(std::string_view text, std::size_t bytes_max) {
  std::string out;
  const std::size_t end = text.size();
  for (std::size_t at = 0; at < end;) {
    if (at >= bytes_max) return out + "...";
    const std::size_t count = character_bytes(text.substr(at));
    const std::string_view character = text.substr(at, count == 0 ? 1 : count);
    at += character.size();
    const auto first = static_cast<unsigned char>(character[0]);
    if (count == 0 || (first < 0x20 && first != '\n') || first == 0x7f || is_invisible(character))
      out += kUnknown;
    else if (first == '<')
      out += "&lt;";
    else if (first == '>')
      out += "&gt;";
    else if (first == '&')
      out += "&amp;";
    else if (first == '"')
      out += "&quot;";
    else if (first == '\'')
      out += "&#39;";
    else
      out += character;
  }
  return out;
}

std::string html_page(std::string_view title, std::string_view body) {
  constexpr std::string_view kStyle =
      ":root{color-scheme:light dark}"
      "body{font-family:sans-serif;line-height:1.4;max-width:60em;margin:2em auto;padding:0 1em;"
      "color:#222;background:#fff}"
      "table{border-collapse:collapse}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ccc}"
      "td.text,th.text{text-align:left;overflow-wrap:anywhere}"
      "pre{white-space:pre-wrap;overflow-wrap:anywhere}figure{margin:1em 0;overflow-x:auto}"
      "code{overflow-wrap:anywhere}.good{color:#00642d}.bad{color:#a30000}"
      "@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}td,th{border-color:#444}"
      ".good{color:#6fdc8c}.bad{color:#ff8389}}";
  return fmt::format(
      "<!doctype html>\n<html lang='en'>\n<head><meta charset='utf-8'>"
      "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
      "<meta name='viewport' content='width=device-width'>"
      "<title>{}</title>\n<style>{}</style></head>\n<body>\n{}</body>\n</html>\n",
      escaped(title), kStyle, body);
}

}  // namespace unbroken
