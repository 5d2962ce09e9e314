#include "exchange/crc32.h"

#include <array>
#include <cstring>

namespace unbroken {

namespace {

/// kTables[k][b]: the effect of byte b followed by k zero bytes, so that eight bytes are taken at once.
constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t state = b;
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0xedb88320U : 0U);
    tables[0][b] = state;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t b = 0; b < 256; ++b)
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 255];
  return tables;
}();

}  // namespace

void Crc32::update(Bytes bytes) {
  std::uint32_t state = state_;
  std::size_t at = 0;
  for (; bytes.size() - at >= 8; at += 8) {
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, bytes.data() + at, 4);
    std::memcpy(&high, bytes.data() + at + 4, 4);
    low ^= state;
    state = kTables[7][low & 255] ^ kTables[6][low >> 8 & 255] ^ kTables[5][low >> 16 & 255] ^
            kTables[4][low >> 24] ^ kTables[3][high & 255] ^ kTables[2][high >> 8 & 255] ^
            kTables[1][high >> 16 & 255] ^ kTables[0][high >> 24];
  }
  for (; at < bytes.size(); ++at)
    state = kTables[0][(state ^ static_cast<std::uint32_t>(bytes[at])) & 255] ^ (state >> 8);
  state_ = state;
}

}  // namespace unbroken
