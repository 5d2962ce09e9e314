#include "state/dtype.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

TEST(DType, HasOneNameEach) {
  for (const DType dtype : all_dtypes()) EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  EXPECT_EQ(dtype_from_name("f32"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, KeepsItsBytesInTheStoredForm) {
  for (const DType dtype : all_dtypes()) {
    const Shape shape{8, 3};
    const StoredForm form = stored_form(dtype, shape);
    EXPECT_TRUE(is_stored(form.dtype));
    EXPECT_EQ(byte_size(form.dtype, form.shape).value(), byte_size(dtype, shape).value()) << name_of(dtype);
    EXPECT_EQ(is_stored(dtype), (form == StoredForm{dtype, shape}));
  }
  EXPECT_EQ(stored_form(DType::c128, Shape{3}), (StoredForm{DType::f64, {3, 2}}));
  EXPECT_EQ(stored_form(DType::c32, Shape{}), (StoredForm{DType::f16, {2}}));
  EXPECT_EQ(stored_form(DType::f4x2, Shape{5}), (StoredForm{DType::f4, {5, 2}}));
}

TEST(DType, CountsBytesWithoutOverflow) {
  EXPECT_EQ(byte_size(DType::f32, Shape{}).value(), 4U);
  EXPECT_EQ(byte_size(DType::f32, Shape{0, 7}).value(), 0U);
  EXPECT_EQ(byte_size(DType::f4, Shape{6}).value(), 3U);
  EXPECT_TRUE(byte_size(DType::f4, Shape{5}).is(Code::bad_argument));
  EXPECT_TRUE(byte_size(DType::u8, Shape{UINT64_MAX, 2}).is(Code::bad_argument));
  EXPECT_TRUE(byte_size(DType::u8, Shape{UINT64_MAX}).is(Code::bad_argument));
  EXPECT_TRUE(byte_size(DType::u8, Shape{UINT64_MAX, 2, 0}).is(Code::bad_argument));
}

TEST(DType, DescribesATensor) {
  EXPECT_EQ(describe(DType::f32, Shape{3, 4}), "F32[3,4]");
  EXPECT_EQ(describe(DType::i64, Shape{}), "I64[]");
}

}  // namespace
}  // namespace unbroken
