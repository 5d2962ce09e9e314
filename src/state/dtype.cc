#include "state/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace unbroken {

namespace {

struct Info {
  DType dtype;
  std::string_view name;
  unsigned bits;
  DType stored;    ///< itself for a type of safetensors
  unsigned count;  ///< stored elements in one logical element
};

constexpr Info plain(DType dtype, std::string_view name, unsigned bits) {
  return {dtype, name, bits, dtype, 1};
}

constexpr std::array kInfos{
    plain(DType::boolean, "BOOL", 8),
    plain(DType::f4, "F4", 4),
    plain(DType::f6_e2m3, "F6_E2M3", 6),
    plain(DType::f6_e3m2, "F6_E3M2", 6),
    plain(DType::u8, "U8", 8),
    plain(DType::i8, "I8", 8),
    plain(DType::f8_e5m2, "F8_E5M2", 8),
    plain(DType::f8_e4m3, "F8_E4M3", 8),
    plain(DType::f8_e8m0, "F8_E8M0", 8),
    plain(DType::f8_e4m3fnuz, "F8_E4M3FNUZ", 8),
    plain(DType::f8_e5m2fnuz, "F8_E5M2FNUZ", 8),
    plain(DType::i16, "I16", 16),
    plain(DType::u16, "U16", 16),
    plain(DType::f16, "F16", 16),
    plain(DType::bf16, "BF16", 16),
    plain(DType::i32, "I32", 32),
    plain(DType::u32, "U32", 32),
    plain(DType::f32, "F32", 32),
    plain(DType::c64, "C64", 64),
    plain(DType::f64, "F64", 64),
    plain(DType::i64, "I64", 64),
    plain(DType::u64, "U64", 64),
    Info{DType::c32, "C32", 32, DType::f16, 2},
    Info{DType::c128, "C128", 128, DType::f64, 2},
    Info{DType::f4x2, "F4X2", 8, DType::f4, 2},
    Info{DType::uint1, "UINT1", 8, DType::u8, 1},
    Info{DType::uint2, "UINT2", 8, DType::u8, 1},
    Info{DType::uint3, "UINT3", 8, DType::u8, 1},
    Info{DType::uint4, "UINT4", 8, DType::u8, 1},
    Info{DType::uint5, "UINT5", 8, DType::u8, 1},
    Info{DType::uint6, "UINT6", 8, DType::u8, 1},
    Info{DType::uint7, "UINT7", 8, DType::u8, 1},
    Info{DType::int1, "INT1", 8, DType::u8, 1},
    Info{DType::int2, "INT2", 8, DType::u8, 1},
    Info{DType::int3, "INT3", 8, DType::u8, 1},
    Info{DType::int4, "INT4", 8, DType::u8, 1},
    Info{DType::int5, "INT5", 8, DType::u8, 1},
    Info{DType::int6, "INT6", 8, DType::u8, 1},
    Info{DType::int7, "INT7", 8, DType::u8, 1},
    Info{DType::bits1x8, "BITS1X8", 8, DType::u8, 1},
    Info{DType::bits2x4, "BITS2X4", 8, DType::u8, 1},
    Info{DType::bits4x2, "BITS4X2", 8, DType::u8, 1},
    Info{DType::bits8, "BITS8", 8, DType::u8, 1},
    Info{DType::bits16, "BITS16", 16, DType::u16, 1},
};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kInfos.size(); ++i)
    if (static_cast<std::size_t>(kInfos[i].dtype) != i) return false;
  return true;
}
static_assert(is_in_order(), "kInfos is indexed by DType");

constexpr auto kAll = [] {
  std::array<DType, kInfos.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = kInfos[i].dtype;
  return all;
}();

const Info& info_of(DType dtype) noexcept {
  return kInfos[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::string_view name_of(DType dtype) noexcept {
  return info_of(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (const Info& info : kInfos)
    if (info.name == name) return info.dtype;
  return std::nullopt;
}

unsigned bits_of(DType dtype) noexcept {
  return info_of(dtype).bits;
}

bool is_stored(DType dtype) noexcept {
  return info_of(dtype).stored == dtype;
}

std::span<const DType> all_dtypes() noexcept {
  return kAll;
}

Result<std::uint64_t> element_count(std::span<const std::uint64_t> shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t axis : shape)
    if (__builtin_mul_overflow(count, axis, &count))
      return Error(Code::bad_argument,
                   fmt::format("shape [{}] has too many elements", fmt::join(shape, ",")));
  return count;
}

Result<std::uint64_t> byte_size(DType dtype, std::span<const std::uint64_t> shape) {
  UNBROKEN_TRY(std::uint64_t bits, element_count(shape));
  if (__builtin_mul_overflow(bits, std::uint64_t{bits_of(dtype)}, &bits))
    return Error(Code::bad_argument, fmt::format("{} has too many bytes", describe(dtype, shape)));
  if (bits % 8 != 0)
    return Error(Code::bad_argument, fmt::format("{} does not end on a whole byte", describe(dtype, shape)));
  return bits / 8;
}

StoredForm stored_form(DType dtype, std::span<const std::uint64_t> shape) {
  const Info& info = info_of(dtype);
  StoredForm form{info.stored, Shape(shape.begin(), shape.end())};
  if (info.count != 1) form.shape.push_back(info.count);
  return form;
}

std::string describe(DType dtype, std::span<const std::uint64_t> shape) {
  return fmt::format("{}[{}]", name_of(dtype), fmt::join(shape, ","));
}

}  // namespace unbroken
