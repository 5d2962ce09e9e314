#pragma once
// What a newer version wrote and this one must not guess at: it is refused, and never called damaged.
#include <string>
#include <utility>

#include "base/error.h"

namespace unbroken {

/// The refusal, code unsupported. `what` names the object and what is not known about it.
inline Error written_by_newer(std::string what, Where at = Where::here()) {
  return Error(Code::unsupported, std::move(what) + ": use a newer unbroken", at).next("unbroken version");
}

}  // namespace unbroken
