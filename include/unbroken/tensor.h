#pragma once
// A tensor in the caller's memory.
#include <cstdint>
#include <string>
#include <vector>

#include "unbroken/dtype.h"

namespace unbroken {

/// Shapes: `shape` and `stride_elements` have one entry per axis; strides may be zero or negative. `data`
/// points to the element at index 0 of every axis. A save reads it, a restore writes it; nobody frees it.
struct TensorView {
  std::string name;
  DType dtype = DType::u8;
  Shape shape;
  std::vector<std::int64_t> stride_elements;
  void* data = nullptr;
};

/// A contiguous one.
TensorView contiguous_view(std::string name, DType dtype, Shape shape, void* data);

}  // namespace unbroken
