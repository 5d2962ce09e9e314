#pragma once
// Invariants that stay on in release. A failed check throws CheckFailed: the engine poisons the save at hand
// (no COMMIT can follow) and training goes on; the program and the simulator let it end the process.
#include <stdexcept>
#include <string>

namespace unbroken {

class CheckFailed : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  throw CheckFailed(std::string(file) + ":" + std::to_string(line) +
                    ": invariant does not hold: " + condition);
}

#define UNBROKEN_CHECK(condition)                      \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::unbroken::check_failed(#condition, __FILE__, __LINE__))

}  // namespace unbroken
