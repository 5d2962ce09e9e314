#include "os/errno.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace unbroken {
namespace {

Code code_of(int number) {
  switch (number) {
    case ENOENT:
      return Code::not_found;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Code::no_space;
    // Something of another kind stands at the name or above it.
    case ELOOP:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
      return Code::bad_argument;
    default:
      return Code::unavailable;
  }
}

const char* or_unknown(const char* text) {
  return text == nullptr ? "unknown" : text;
}

}  // namespace

Error errno_error(int number, std::string_view call, std::string_view path, Where at) {
  const char* const why = number == ELOOP ? "a symbolic link stands in the way" : strerrordesc_np(number);
  return Error(code_of(number),
               fmt::format("{}{}{}: {} ({})", path, path.empty() ? "" : ": ", call,
                           or_unknown(strerrorname_np(number)), or_unknown(why)),
               at)
      .from_system(number);
}

}  // namespace unbroken
