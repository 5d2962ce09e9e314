#include "base/error.h"

namespace unbroken {

std::string_view name_of(Code code) noexcept {
  switch (code) {
    case Code::not_found:
      return "not_found";
    case Code::bad_argument:
      return "bad_argument";
    case Code::mismatch:
      return "mismatch";
    case Code::corrupt:
      return "corrupt";
    case Code::journal_unreadable:
      return "journal_unreadable";
    case Code::unavailable:
      return "unavailable";
    case Code::no_space:
      return "no_space";
    case Code::fenced:
      return "fenced";
    case Code::vanished:
      return "vanished";
    case Code::late:
      return "late";
    case Code::stopped:
      return "stopped";
    case Code::unsaved:
      return "unsaved";
    case Code::unsupported:
      return "unsupported";
    case Code::bug:
      return "bug";
  }
  return "unknown";
}

}  // namespace unbroken
