#include "base/shown.h"

#include "base/utf8.h"

namespace unbroken {

std::string shown(const Error& error) {
  return error.code() == Code::mismatch ? printable_lines(error.what()) : printable(error.what());
}

}  // namespace unbroken
