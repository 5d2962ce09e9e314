#include "snapshot/tensor_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace unbroken {

TensorView contiguous_view(std::string name, DType dtype, Shape shape, void* data) {
  TensorView view{std::move(name), dtype, std::move(shape), {}, data};
  view.stride_elements.resize(view.shape.size());
  std::int64_t stride = 1;
  for (std::size_t axis = view.shape.size(); axis-- > 0;) {
    view.stride_elements[axis] = stride;
    stride *= static_cast<std::int64_t>(view.shape[axis]);
  }
  return view;
}

bool is_contiguous(const TensorView& view) {
  if (std::find(view.shape.begin(), view.shape.end(), 0U) != view.shape.end()) return true;
  std::int64_t expected = 1;
  for (std::size_t axis = view.shape.size(); axis-- > 0;) {
    if (view.shape[axis] != 1 && view.stride_elements[axis] != expected) return false;
    expected *= static_cast<std::int64_t>(view.shape[axis]);
  }
  return true;
}

Result<> check_view(const TensorView& view) {
  const auto bad = [&](std::string_view why) {
    return Error(Code::bad_argument, fmt::format("{}: {}", view.name, why));
  };
  if (view.stride_elements.size() != view.shape.size()) return bad("needs one stride per axis");
  UNBROKEN_TRY(const std::uint64_t bytes, byte_size(view.dtype, view.shape));
  if (bytes != 0 && view.data == nullptr) return bad("has no memory");
  if (bits_of(view.dtype) % 8 != 0 && !is_contiguous(view))
    return bad("elements smaller than a byte have to be contiguous");
  return Done{};
}

namespace {

/// Copies one run of the innermost axes after another; `run_axis` is the first axis that is part of a run.
void gather_axis(const TensorView& view, std::size_t axis, std::size_t run_axis, std::size_t run_bytes,
                 std::int64_t element_bytes, const std::byte* from, std::byte*& to) {
  if (axis == run_axis) {
    std::memcpy(to, from, run_bytes);
    to += run_bytes;
    return;
  }
  const std::int64_t step = view.stride_elements[axis] * element_bytes;
  for (std::uint64_t i = 0; i < view.shape[axis]; ++i, from += step)
    gather_axis(view, axis + 1, run_axis, run_bytes, element_bytes, from, to);
}

}  // namespace

void gather(const TensorView& view, MutableBytes out) {
  if (out.empty()) return;
  const auto* from = static_cast<const std::byte*>(view.data);
  if (is_contiguous(view)) {
    std::memcpy(out.data(), from, out.size());
    return;
  }
  const auto element_bytes = static_cast<std::int64_t>(bits_of(view.dtype) / 8);
  std::size_t run_axis = view.shape.size();
  auto run_elements = std::int64_t{1};
  while (run_axis > 0 &&
         (view.shape[run_axis - 1] == 1 || view.stride_elements[run_axis - 1] == run_elements)) {
    --run_axis;
    run_elements *= static_cast<std::int64_t>(view.shape[run_axis]);
  }
  std::byte* to = out.data();
  gather_axis(view, 0, run_axis, static_cast<std::size_t>(run_elements * element_bytes), element_bytes, from,
              to);
  UNBROKEN_CHECK(to == out.data() + out.size());
}

}  // namespace unbroken
