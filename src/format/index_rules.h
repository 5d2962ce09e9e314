#pragma once
// What must hold in an index, whoever made it.
#include "format/index.h"
#include "state/names.h"

namespace unbroken {

/// Names unique and allowed, sizes that follow from dtype and shape, tensors tiling the data without hole or
/// overlap, aliases of tensors that are there, and no tensor in the tree without bytes.
/// Errors: corrupt.
Result<> check_index(const Index& index);

}  // namespace unbroken
