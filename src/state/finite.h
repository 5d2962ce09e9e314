#pragma once
// Values that are no numbers any more: what a training that has diverged leaves in its parameters.
#include "base/bytes.h"
#include "unbroken/dtype.h"

namespace unbroken {

/// False where one of the elements in `bytes`, whole ones, is a NaN or an infinity. True for types that have
/// neither (integers; OCP MX v1.0 section 5.3: FP4 and FP6).
bool all_finite(DType dtype, Bytes bytes);

}  // namespace unbroken
