#include "state/finite.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace unbroken {
namespace {

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

template <class T>
void expect_found_anywhere(DType dtype, const std::vector<T>& finite, const std::vector<T>& not_finite) {
  std::vector<T> values;
  while (values.size() < 97) values.insert(values.end(), finite.begin(), finite.end());
  EXPECT_TRUE(all_finite(dtype, bytes_of(values))) << name_of(dtype);
  for (const T bad : not_finite)
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto broken = values;
      broken[i] = bad;
      EXPECT_FALSE(all_finite(dtype, bytes_of(broken))) << name_of(dtype) << " at " << i;
    }
}

TEST(Finite, FindsNanAndInfinityWhereverTheyStand) {
  using F = std::numeric_limits<float>;
  using D = std::numeric_limits<double>;
  const std::vector<float> floats{0.0F, -0.0F, 1.5F, F::max(), F::lowest(), F::min(), F::denorm_min()};
  const std::vector<float> bad_floats{F::quiet_NaN(), -F::quiet_NaN(), F::infinity(), -F::infinity()};
  expect_found_anywhere(DType::f32, floats, bad_floats);
  expect_found_anywhere(DType::c64, floats, bad_floats);
  const std::vector<double> doubles{0.0, -1.5, D::max(), D::lowest(), D::denorm_min()};
  const std::vector<double> bad_doubles{D::quiet_NaN(), D::infinity(), -D::infinity()};
  expect_found_anywhere(DType::f64, doubles, bad_doubles);
  expect_found_anywhere(DType::c128, doubles, bad_doubles);
  using Half = std::vector<std::uint16_t>;
  expect_found_anywhere(DType::f16, Half{0, 0x8000, 0x7bff, 0xfbff}, Half{0x7c00, 0xfc00, 0x7e00, 0x7c01});
  expect_found_anywhere(DType::c32, Half{0, 0x7bff}, Half{0x7c00, 0xfe00});
  expect_found_anywhere(DType::bf16, Half{0, 0x8000, 0x7f7f, 0xff7f}, Half{0x7f80, 0xff80, 0x7fc0, 0x7f81});
}

TEST(Finite, KnowsWhatEachEightBitTypeHas) {
  using Eight = std::vector<std::uint8_t>;
  expect_found_anywhere(DType::f8_e5m2, Eight{0, 0x80, 0x7b, 0xfb}, Eight{0x7c, 0xfc, 0x7f, 0xfd});
  expect_found_anywhere(DType::f8_e4m3, Eight{0, 0x80, 0x7e, 0xfe}, Eight{0x7f, 0xff});
  expect_found_anywhere(DType::f8_e8m0, Eight{0, 0x80, 0x7f, 0xfe}, Eight{0xff});
  expect_found_anywhere(DType::f8_e4m3fnuz, Eight{0, 0x7f, 0xff, 0x81}, Eight{0x80});
  expect_found_anywhere(DType::f8_e5m2fnuz, Eight{0, 0x7f, 0xff, 0x81}, Eight{0x80});
}

TEST(Finite, IsTrueOfWhatHasNeither) {
  const std::vector<std::byte> ones(64, std::byte{0xff});
  for (const DType dtype : {DType::boolean, DType::u8, DType::i64, DType::f4, DType::f6_e2m3, DType::f6_e3m2,
                            DType::f4x2, DType::uint4, DType::bits16})
    EXPECT_TRUE(all_finite(dtype, ones)) << name_of(dtype);
  EXPECT_TRUE(all_finite(DType::f32, {}));
}

}  // namespace
}  // namespace unbroken
