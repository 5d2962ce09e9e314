#pragma once
// The CRC-32 of zip archives (polynomial 0xEDB88320, reflected), over a stream of pieces.
#include <cstdint>

#include "base/bytes.h"

namespace unbroken {

class Crc32 {
 public:
  void update(Bytes bytes);
  std::uint32_t value() const { return ~state_; }

 private:
  std::uint32_t state_ = 0xffffffffU;
};

}  // namespace unbroken
