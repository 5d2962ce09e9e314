#include "session/provenance.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "unbroken_version.h"

namespace unbroken {

namespace {

constexpr std::string_view kHidden = "***";
constexpr std::size_t kCommandBytesMax = 8192;

/// "--api-token", "hub.api_key", "DB_PASSWORD".
bool is_secret(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kEnds{"token", "key", "password", "passwd", "secret"};
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(kEnds.begin(), kEnds.end(),
                     [&](std::string_view end) { return std::string_view(lower).ends_with(end); });
}

/// https://user:password@host as https://***@host.
std::string without_login(std::string word) {
  const std::size_t scheme = word.find("://");
  if (scheme == std::string::npos) return word;
  const std::size_t begin = scheme + 3, end = std::min(word.find('/', begin), word.size());
  const std::size_t at = word.substr(0, end).rfind('@');
  if (at == std::string::npos || at < begin) return word;
  return word.replace(begin, at - begin, kHidden);
}

std::string quoted(const std::string& word) {
  static constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-*";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c;
  }
  return out + "'";
}

}  // namespace

std::string shown_command(const std::vector<std::string>& words) {
  std::string out;
  bool is_value_hidden = false;  // of the option before
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const bool is_option = word.starts_with("-");
    std::string shown = without_login(word);
    if (is_value_hidden && !is_option)
      shown = kHidden;
    else if (equals != std::string::npos && is_secret(std::string_view(word).substr(0, equals)))
      shown = word.substr(0, equals + 1) + std::string(kHidden);
    is_value_hidden = is_option && equals == std::string::npos && is_secret(word);
    if (!out.empty()) out += ' ';
    out += quoted(shown);
    if (out.size() > kCommandBytesMax) return out.substr(0, kCommandBytesMax) + " ...";
  }
  return out;
}

std::map<std::string, std::string> provenance_of(const Process& process, std::string_view directory) {
  const ProcessIdentity me = process.self();
  std::map<std::string, std::string> out{{"host", me.host},
                                         {"pid", std::to_string(me.pid)},
                                         {"directory", std::string(directory)},
                                         {"unbroken", UNBROKEN_VERSION}};
  if (std::string command = shown_command(process.command_line()); !command.empty())
    out["command"] = std::move(command);
  return out;
}

}  // namespace unbroken
