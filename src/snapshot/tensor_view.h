#pragma once
// Live tensors, borrowed, and the logical bytes in them: contiguous, row-major, whatever the strides.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "state/dtype.h"
#include "unbroken/tensor.h"

namespace unbroken {

/// Errors: bad_argument (null data, wrong number of strides, a sub-byte type that is not contiguous).
Result<> check_view(const TensorView& view);
bool is_contiguous(const TensorView& view);
/// Copies logical bytes of a view that check_view() accepts, from byte `begin` on, until `out` is full.
void gather(const TensorView& view, std::uint64_t begin, MutableBytes out);
/// All of them: `out` has exactly their size.
inline void gather(const TensorView& view, MutableBytes out) {
  gather(view, 0, out);
}

}  // namespace unbroken
