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
/// Copies all logical bytes of a view that check_view() accepts into `out`, which has exactly their size.
void gather(const TensorView& view, MutableBytes out);

}  // namespace unbroken
