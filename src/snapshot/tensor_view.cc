#include "snapshot/tensor_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

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

/// What is copied: logical bytes [begin, begin + out.size()) of a view.
class Gather {
 public:
  Gather(const TensorView& view, std::uint64_t begin, MutableBytes out)
      : view_(view),
        element_bytes_(static_cast<std::int64_t>(bits_of(view.dtype) / 8)),
        begin_(begin),
        end_(begin + out.size()),
        out_(out.data()),
        run_axis_(view.shape.size()),
        step_bytes_(view.shape.size()) {
    auto run_elements = std::int64_t{1}, elements = std::int64_t{1};
    for (std::size_t axis = view.shape.size(); axis-- > 0;) {
      step_bytes_[axis] = static_cast<std::uint64_t>(elements * element_bytes_);
      elements *= static_cast<std::int64_t>(view.shape[axis]);
      const bool goes_on = view.shape[axis] == 1 || view.stride_elements[axis] == run_elements;
      if (run_axis_ != axis + 1 || !goes_on) continue;
      run_axis_ = axis;
      run_elements = elements;
    }
    bytes_ = static_cast<std::uint64_t>(elements * element_bytes_);
  }
  void copy() { copy(0, bytes_, static_cast<const std::byte*>(view_.data), 0); }

 private:
  /// A part of the view, `bytes` long and `at` in its logical bytes: everything at one index of the axes
  /// before `axis`. From run_axis_ on, the axes are one run of memory.
  void copy(std::size_t axis, std::uint64_t bytes, const std::byte* from, std::uint64_t at) {
    const std::uint64_t first = std::max(at, begin_), last = std::min(at + bytes, end_);
    if (axis == run_axis_) {
      std::memcpy(out_ + (first - begin_), from + (first - at), last - first);
      return;
    }
    const std::uint64_t step = step_bytes_[axis];
    for (std::uint64_t i = (first - at) / step; at + i * step < last; ++i)
      copy(axis + 1, step, from + static_cast<std::int64_t>(i) * view_.stride_elements[axis] * element_bytes_,
           at + i * step);
  }

  const TensorView& view_;
  const std::int64_t element_bytes_;
  const std::uint64_t begin_, end_;
  std::byte* const out_;
  std::size_t run_axis_;
  std::vector<std::uint64_t> step_bytes_;  // by axis: logical bytes from one index to the next
  std::uint64_t bytes_ = 0;
};

}  // namespace

void gather(const TensorView& view, std::uint64_t begin, MutableBytes out) {
  if (out.empty()) return;
  if (is_contiguous(view)) {
    std::memcpy(out.data(), static_cast<const std::byte*>(view.data) + begin, out.size());
    return;
  }
  Gather(view, begin, out).copy();
}

}  // namespace unbroken
