#pragma once
// Element types: what torch and NumPy hold on a CPU. Every one has a name (those of safetensors where it has
// one), a size, and a *stored form*: the safetensors type its bytes are written as. The index keeps the
// logical type, so a complex tensor comes back as one although its bytes are written as pairs of floats.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unbroken/result.h"

namespace unbroken {

enum class DType : std::uint8_t {
  // Those of safetensors, in its order.
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
  // Ours. One element of each is whole bytes.
  c32,
  c128,
  f4x2,  ///< torch.float4_e2m1fn_x2: two F4 in a byte
  uint1,
  uint2,
  uint3,
  uint4,
  uint5,
  uint6,
  uint7,
  int1,
  int2,
  int3,
  int4,
  int5,
  int6,
  int7,
  bits1x8,
  bits2x4,
  bits4x2,
  bits8,
  bits16,
};

using Shape = std::vector<std::uint64_t>;
/// Axes of a tensor that the format accepts.
inline constexpr std::size_t kRankMax = 16;

/// "F32", "BF16", "BOOL", "C128", "UINT4".
std::string_view name_of(DType dtype) noexcept;
std::optional<DType> dtype_from_name(std::string_view name) noexcept;
/// Of one element: 4 for F4, 1 never (sub-byte torch integers take a byte each).
unsigned bits_of(DType dtype) noexcept;
/// True for the types that may stand in a safetensors header.
bool is_stored(DType dtype) noexcept;
/// Every type, in declaration order.
std::span<const DType> all_dtypes() noexcept;

/// Product of the axes, 1 for none. Errors: bad_argument where it does not fit 64 bits.
Result<std::uint64_t> element_count(std::span<const std::uint64_t> shape);
/// Contiguous size. Errors: bad_argument (overflow, or a sub-byte total that is not whole bytes).
Result<std::uint64_t> byte_size(DType dtype, std::span<const std::uint64_t> shape);

/// How the bytes are written in a shard: C128 [3] as F64 [3,2], UINT4 [8] as U8 [8].
struct StoredForm {
  DType dtype;
  Shape shape;
  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};
StoredForm stored_form(DType dtype, std::span<const std::uint64_t> shape);

/// What a tensor is, without its bytes.
struct TensorSpec {
  std::string name;
  DType dtype = DType::u8;
  Shape shape;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};
/// "F32[3,4]"; "F32[]" for a scalar.
std::string describe(DType dtype, std::span<const std::uint64_t> shape);

}  // namespace unbroken
