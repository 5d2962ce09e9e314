#include "state/finite.h"

#include <algorithm>
#include <cstring>

namespace unbroken {

namespace {

/// IEEE 754 and its relatives: the exponent is all ones. No early end, so that the loop is one of vectors.
template <class Word>
bool has_no_full_exponent(Bytes bytes, Word exponent) {
  Word seen = 0;
  for (std::size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    seen = static_cast<Word>(seen | static_cast<Word>((word & exponent) == exponent));
  }
  return seen == 0;
}

/// Eight bits whose NaN is one pattern once `mask` is applied.
bool has_no_pattern(Bytes bytes, unsigned mask, unsigned pattern) {
  return std::none_of(bytes.begin(), bytes.end(),
                      [&](std::byte b) { return (std::to_integer<unsigned>(b) & mask) == pattern; });
}

}  // namespace

bool all_finite(DType dtype, Bytes bytes) {
  switch (dtype) {
    case DType::f16:
    case DType::c32:
      return has_no_full_exponent<std::uint16_t>(bytes, 0x7c00);
    case DType::bf16:
      return has_no_full_exponent<std::uint16_t>(bytes, 0x7f80);
    case DType::f32:
    case DType::c64:
      return has_no_full_exponent<std::uint32_t>(bytes, 0x7f80'0000);
    case DType::f64:
    case DType::c128:
      return has_no_full_exponent<std::uint64_t>(bytes, 0x7ff0'0000'0000'0000);
    case DType::f8_e5m2:
      return has_no_full_exponent<std::uint8_t>(bytes, 0x7c);
    case DType::f8_e4m3:
      return has_no_pattern(bytes, 0x7f, 0x7f);
    case DType::f8_e8m0:
      return has_no_pattern(bytes, 0xff, 0xff);
    case DType::f8_e4m3fnuz:
    case DType::f8_e5m2fnuz:
      return has_no_pattern(bytes, 0xff, 0x80);
    default:
      return true;
  }
}

}  // namespace unbroken
