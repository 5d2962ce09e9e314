#include "snapshot/tensor_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace unbroken {
namespace {

/// 24 numbers, each its own position, seen through any strides.
class Numbers {
 public:
  Numbers() { std::iota(memory_.begin(), memory_.end(), 0); }
  TensorView view(Shape shape, std::vector<std::int64_t> strides, std::size_t first = 0) {
    return {"t", DType::u16, std::move(shape), std::move(strides), memory_.data() + first};
  }

 private:
  std::array<std::uint16_t, 24> memory_;
};

std::vector<std::uint16_t> gathered(const TensorView& view) {
  EXPECT_TRUE(check_view(view).ok());
  std::vector<std::uint16_t> out(byte_size(view.dtype, view.shape).value() / 2, 999);
  gather(view, std::as_writable_bytes(std::span(out)));
  return out;
}

using Values = std::vector<std::uint16_t>;

TEST(Gather, CopiesAContiguousTensor) {
  Numbers numbers;
  const TensorView view = numbers.view({2, 3}, {3, 1}, 4);
  EXPECT_TRUE(is_contiguous(view));
  EXPECT_EQ(gathered(view), (Values{4, 5, 6, 7, 8, 9}));
}

TEST(Gather, FollowsATransposedTensor) {
  Numbers numbers;
  const TensorView view = numbers.view({3, 2}, {1, 3});
  EXPECT_FALSE(is_contiguous(view));
  EXPECT_EQ(gathered(view), (Values{0, 3, 1, 4, 2, 5}));
}

TEST(Gather, FollowsSteps) {
  Numbers numbers;
  EXPECT_EQ(gathered(numbers.view({4}, {5})), (Values{0, 5, 10, 15}));
  EXPECT_EQ(gathered(numbers.view({2, 3}, {12, 2}, 1)), (Values{1, 3, 5, 13, 15, 17}));
}

TEST(Gather, RepeatsWhereAStrideIsZero) {
  Numbers numbers;
  EXPECT_EQ(gathered(numbers.view({3}, {0}, 7)), (Values{7, 7, 7}));
  EXPECT_EQ(gathered(numbers.view({2, 2}, {0, 1}, 3)), (Values{3, 4, 3, 4}));
  EXPECT_EQ(gathered(numbers.view({2, 2}, {1, 0}, 3)), (Values{3, 3, 4, 4}));
}

TEST(Gather, CopiesAnyPartOfTheLogicalBytes) {
  Numbers numbers;
  for (const TensorView& view :
       {numbers.view({2, 3}, {3, 1}, 4), numbers.view({3, 2}, {1, 3}), numbers.view({2, 3}, {12, 2}, 1),
        numbers.view({2, 3, 2}, {2, 4, 1}), numbers.view({3, 1, 2}, {0, 5, 1}), numbers.view({4}, {-2}, 9)}) {
    const Values all = gathered(view);
    const Bytes whole = std::as_bytes(std::span(all));
    for (std::size_t begin = 0; begin <= whole.size(); ++begin)
      for (std::size_t end = begin; end <= whole.size(); ++end) {
        std::vector<std::byte> part(end - begin, std::byte{0xee});
        gather(view, begin, part);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)))
            << begin << " to " << end;
      }
  }
}

TEST(Gather, WalksBackwardsWhereAStrideIsNegative) {
  Numbers numbers;
  EXPECT_EQ(gathered(numbers.view({4}, {-1}, 6)), (Values{6, 5, 4, 3}));
  EXPECT_EQ(gathered(numbers.view({2, 2}, {-4, -1}, 9)), (Values{9, 8, 5, 4}));
  EXPECT_EQ(gathered(numbers.view({2, 3}, {-6, 1}, 6)), (Values{6, 7, 8, 0, 1, 2}));
}

TEST(Gather, TakesOneElementOfNoAxes) {
  Numbers numbers;
  EXPECT_EQ(gathered(numbers.view({}, {}, 11)), (Values{11}));
}

TEST(Gather, TakesNothingOfAnEmptyTensor) {
  Numbers numbers;
  EXPECT_EQ(gathered(numbers.view({0, 4}, {4, 1})), Values{});
  EXPECT_EQ(gathered(numbers.view({3, 0}, {9, 7})), Values{});
  TensorView nowhere{"t", DType::u16, {5, 0}, {3, 1}, nullptr};
  EXPECT_EQ(gathered(nowhere), Values{});
}

TEST(Gather, IgnoresTheStridesOfAxesOfOneElement) {
  Numbers numbers;
  const TensorView view = numbers.view({1, 3, 1}, {-77, 1, 1000});
  EXPECT_TRUE(is_contiguous(view));
  EXPECT_EQ(gathered(view), (Values{0, 1, 2}));
}

TEST(Gather, CopiesTheInnermostRunsOfAView) {
  Numbers numbers;
  // The middle two columns of 4x6, in rows of 2; runs of two elements.
  EXPECT_EQ(gathered(numbers.view({4, 2}, {6, 1}, 2)), (Values{2, 3, 8, 9, 14, 15, 20, 21}));
  // A block of 2x2 rows whose inner axes are one run of 4.
  EXPECT_EQ(gathered(numbers.view({2, 2, 2}, {12, 2, 1}, 1)), (Values{1, 2, 3, 4, 13, 14, 15, 16}));
}

TEST(CheckView, RefusesWhatCannotBeRead) {
  Numbers numbers;
  EXPECT_TRUE(check_view(numbers.view({2, 3}, {3})).is(Code::bad_argument)) << "a stride too few";
  EXPECT_TRUE(check_view(numbers.view({2}, {3, 1})).is(Code::bad_argument)) << "a stride too many";
  TensorView nowhere{"t", DType::u16, {1}, {1}, nullptr};
  EXPECT_TRUE(check_view(nowhere).is(Code::bad_argument)) << "no memory";
  TensorView huge = numbers.view({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, {1, 1});
  EXPECT_TRUE(check_view(huge).is(Code::bad_argument)) << "more bytes than there are";
}

TEST(CheckView, NamesTheTensor) {
  TensorView nowhere{"model.weight", DType::u16, {1}, {1}, nullptr};
  EXPECT_NE(check_view(nowhere).error().what().find("model.weight"), std::string::npos);
}

TEST(CheckView, RefusesElementsBelowAByteUnlessContiguous) {
  std::array<std::byte, 8> memory{};
  TensorView packed{"t", DType::f4, {2, 4}, {4, 1}, memory.data()};
  EXPECT_TRUE(check_view(packed).ok());
  packed.stride_elements = {1, 2};
  EXPECT_TRUE(check_view(packed).is(Code::bad_argument));
  packed.shape = {2, 0};
  EXPECT_TRUE(check_view(packed).ok()) << "nothing is read of an empty one";
}

TEST(ContiguousView, HasTheStridesOfRows) {
  std::array<std::uint16_t, 24> memory{};
  const TensorView view = contiguous_view("t", DType::u16, {2, 3, 4}, memory.data());
  EXPECT_EQ(view.stride_elements, (std::vector<std::int64_t>{12, 4, 1}));
  EXPECT_TRUE(is_contiguous(view));
}

}  // namespace
}  // namespace unbroken
