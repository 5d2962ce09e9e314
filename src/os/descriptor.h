#pragma once
// A file descriptor that is owned, closed at the end and never 0, 1 or 2: a stray print must not land in a
// checkpoint.
#include <string_view>
#include <utility>

#include "base/result.h"

namespace unbroken {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  int get() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  void reset() noexcept;
  int number_ = -1;
};

/// Takes over what an open call returned: -1 becomes the error of errno, a standard descriptor is moved up.
Result<Descriptor> adopt(int opened, std::string_view call, std::string_view path = {});

}  // namespace unbroken
