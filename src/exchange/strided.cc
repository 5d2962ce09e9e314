#include "exchange/strided.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace unbroken {

Result<std::vector<std::uint64_t>> contiguous_strides(std::span<const std::uint64_t> shape) {
  std::vector<std::uint64_t> strides(shape.size());
  std::uint64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    if (__builtin_mul_overflow(stride, std::max<std::uint64_t>(shape[axis], 1), &stride))
      return Error(Code::bad_argument,
                   fmt::format("shape [{}] has too many elements", fmt::join(shape, ",")));
  }
  return strides;
}

bool are_contiguous(std::span<const std::uint64_t> shape, std::span<const std::uint64_t> strides) {
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return true;
  std::uint64_t expected = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= shape[axis];  // a caller has counted the elements
  }
  return true;
}

Result<std::uint64_t> strided_span(std::span<const std::uint64_t> shape,
                                   std::span<const std::uint64_t> strides) {
  const auto bad = [&](std::string_view why) {
    return Error(Code::corrupt, fmt::format("shape [{}] with strides [{}] {}", fmt::join(shape, ","),
                                            fmt::join(strides, ","), why));
  };
  if (shape.size() != strides.size()) return bad("has another number of strides than of axes");
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return std::uint64_t{0};
  std::uint64_t span = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(strides[axis], shape[axis] - 1, &reach) ||
        __builtin_add_overflow(span, reach, &span) || span > INT64_MAX)
      return bad("reaches beyond any storage");
  }
  return span;
}

Result<> check_strided(std::span<const std::uint64_t> shape, std::span<const std::uint64_t> strides,
                       std::uint64_t offset, std::uint64_t storage_elements) {
  UNBROKEN_TRY(const std::uint64_t span, strided_span(shape, strides));
  if (offset > storage_elements || span > storage_elements - offset)
    return Error(Code::corrupt,
                 fmt::format("shape [{}] with strides [{}] at {} does not lie in a storage of {} "
                             "elements",
                             fmt::join(shape, ","), fmt::join(strides, ","), offset, storage_elements));
  return Done{};
}

}  // namespace unbroken
