#include "world/advice.h"

#include <fmt/format.h>

#include <cerrno>

#include "base/utf8.h"

namespace unbroken {

namespace {

/// $'...' of bash, zsh and ksh.
std::string escaped_word(std::string_view text) {
  std::string out = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e)
      out += fmt::format("\\x{:02x}", byte);
    else if (c == '\'' || c == '\\')
      out += {'\\', c};
    else
      out += c;
  }
  return out + "'";
}

}  // namespace

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  if (printable(text) != text) return escaped_word(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string path_command(std::string_view directory, std::string_view object) {
  const std::string path = object.empty() ? std::string(directory) : fmt::format("{}/{}", directory, object);
  return "namei -l " + shell_word(path);
}

namespace {

std::string next_command(const Error& error, std::string_view directory, std::string_view object) {
  const std::string where = shell_word(directory);
  const int number = error.system_error();
  switch (error.code()) {
    case Code::journal_unreadable:
      return "unbroken doctor " + where;
    case Code::no_space:
      if (number == EDQUOT) return "quota -s";
      return number == EFBIG ? "ulimit -f" : fmt::format("df -h {0}; df -i {0}", where);
    case Code::bad_argument:  // something of another kind stands in the way
      return number == 0 ? std::string() : path_command(directory, object);
    case Code::unavailable:
      if (number == EACCES || number == EPERM) return path_command(directory, object);
      return "findmnt -T " + where;
    case Code::late:
      return "findmnt -T " + where;
    default:
      return {};
  }
}

}  // namespace

Error advised(Error error, std::string_view directory, std::string_view object) {
  if (!error.next_command().empty() || directory.empty()) return error;
  std::string next = next_command(error, directory, object);
  return std::move(error).next(std::move(next));
}

}  // namespace unbroken
