#pragma once
// Whether a tensor with strides lies within its storage.
#include <cstdint>
#include <span>

#include "base/result.h"
#include "state/dtype.h"

namespace unbroken {

/// Row-major strides. Errors: bad_argument where the shape has too many elements.
Result<std::vector<std::uint64_t>> contiguous_strides(std::span<const std::uint64_t> shape);
bool are_contiguous(std::span<const std::uint64_t> shape, std::span<const std::uint64_t> strides);
/// Elements from the first to behind the last one; 0 for a tensor without elements. Errors: corrupt where it
/// does not fit 63 bits. Elements may share a place, as after expand(): each is read for itself.
Result<std::uint64_t> strided_span(std::span<const std::uint64_t> shape,
                                   std::span<const std::uint64_t> strides);
/// Errors: corrupt, as strided_span(), or where it does not lie within `storage_elements`.
Result<> check_strided(std::span<const std::uint64_t> shape, std::span<const std::uint64_t> strides,
                       std::uint64_t offset, std::uint64_t storage_elements);

}  // namespace unbroken
