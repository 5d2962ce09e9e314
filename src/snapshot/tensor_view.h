#pragma once
// Live tensors, borrowed, and the logical bytes in them: contiguous, row-major, whatever the strides.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "format/index.h"
#include "state/dtype.h"
#include "state/tree.h"

namespace unbroken {

/// Shapes: `shape` and `stride_elements` have one entry per axis; strides may be zero or negative. `data`
/// points to the element at index 0 of every axis.
struct TensorView {
  std::string name;
  DType dtype = DType::u8;
  Shape shape;
  std::vector<std::int64_t> stride_elements;
  const void* data = nullptr;
};

/// All that is saved: tensors once each, other names of the same bytes, and the tree that refers to them.
struct StateView {
  std::vector<TensorView> tensors;
  std::vector<Alias> aliases;
  Node tree;
};

/// Errors: bad_argument (null data, wrong number of strides, a sub-byte type that is not contiguous).
Result<> check_view(const TensorView& view);
bool is_contiguous(const TensorView& view);
/// Copies all logical bytes into `out`, which has exactly their size.
void gather(const TensorView& view, MutableBytes out);

}  // namespace unbroken
