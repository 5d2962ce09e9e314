// Which keys Python holds equal. A dict read from a file must have as many keys as it has items: 1, 1.0, true
// and numpy.int64(1) would all be one.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "state/kinds.h"
#include "state/tree.h"

namespace unbroken {

namespace {

std::string of_double(double value) {
  if (std::isfinite(value) && std::trunc(value) == value)
    return value == 0 ? "i0" : fmt::format("i{:.0f}", value);  // exact: every digit is printed
  return fmt::format("f{:016x}", Float::of(value).bits);
}

std::string of_complex(double real, double imag) {
  if (imag == 0) return of_double(real);
  return fmt::format("c({},{})", of_double(real), of_double(imag));
}

template <class T>
T load(std::string_view bytes, std::size_t offset = 0) {
  T value{};
  static_assert(std::endian::native == std::endian::little, "numbers are read as they lie");
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double mantissa = bits & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa == 0 ? HUGE_VAL : std::nan(""))
                                  : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

std::string of_numpy(const NumpyScalar& scalar) {
  const std::string_view bytes = scalar.bytes;
  switch (scalar.dtype) {
    case DType::boolean:
      return bytes[0] == 0 ? "i0" : "i1";
    case DType::i8:
      return fmt::format("i{}", int{load<std::int8_t>(bytes)});
    case DType::i16:
      return fmt::format("i{}", load<std::int16_t>(bytes));
    case DType::i32:
      return fmt::format("i{}", load<std::int32_t>(bytes));
    case DType::i64:
      return fmt::format("i{}", load<std::int64_t>(bytes));
    case DType::u8:
      return fmt::format("i{}", unsigned{load<std::uint8_t>(bytes)});
    case DType::u16:
      return fmt::format("i{}", load<std::uint16_t>(bytes));
    case DType::u32:
      return fmt::format("i{}", load<std::uint32_t>(bytes));
    case DType::u64:
      return fmt::format("i{}", load<std::uint64_t>(bytes));
    case DType::f16:
      return of_double(half_to_double(load<std::uint16_t>(bytes)));
    case DType::bf16:
      return of_double(double{std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(bytes)} << 16)});
    case DType::f32:
      return of_double(double{load<float>(bytes)});
    case DType::f64:
      return of_double(load<double>(bytes));
    case DType::c64:
      return of_complex(double{load<float>(bytes)}, double{load<float>(bytes, 4)});
    case DType::c128:
      return of_complex(load<double>(bytes), load<double>(bytes, 8));
    default:
      return fmt::format("n{}:{}", name_of(scalar.dtype), to_hex(as_bytes(bytes)));
  }
}

std::string of_items(const List& list) {
  std::vector<std::string> parts;
  parts.reserve(list.items.size());
  for (const Node& item : list.items) parts.push_back(key_identity(item));
  if (is_set(list)) std::sort(parts.begin(), parts.end());
  std::string out(is_set(list) ? "{" : "(");
  for (const std::string& part : parts) out += fmt::format("{}:{}", part.size(), part);
  return out;
}

struct Identity {
  std::string operator()(const None&) const { return "N"; }
  std::string operator()(bool value) const { return value ? "i1" : "i0"; }
  std::string operator()(std::int64_t value) const { return fmt::format("i{}", value); }
  std::string operator()(std::uint64_t value) const { return fmt::format("i{}", value); }
  std::string operator()(const BigInt& value) const { return "i" + value.decimal; }
  std::string operator()(const Float& value) const { return of_double(value.value()); }
  std::string operator()(const Complex& value) const {
    return of_complex(value.real.value(), value.imag.value());
  }
  std::string operator()(const std::string& value) const { return "s" + value; }
  std::string operator()(const Str16& value) const { return "S" + value.units; }
  std::string operator()(const Blob& value) const { return "b" + value.bytes; }
  std::string operator()(const TensorRef& value) const { return "t" + value.name; }
  std::string operator()(const NumpyScalar& value) const { return of_numpy(value); }
  std::string operator()(DType value) const { return fmt::format("d{}", name_of(value)); }
  std::string operator()(const List& value) const { return of_items(value); }
  std::string operator()(const Dict&) const { return "D"; }
};

}  // namespace

bool is_hashable(const Node& node) {
  if (const auto* list = std::get_if<List>(&node.value)) {
    const bool is_frozen = list->kind == List::Kind::tuple || list->kind == List::Kind::size ||
                           list->kind == List::Kind::frozenset;
    return is_frozen && std::all_of(list->items.begin(), list->items.end(), is_hashable);
  }
  return !std::holds_alternative<Dict>(node.value) && !std::holds_alternative<TensorRef>(node.value);
}

std::string key_identity(const Node& key) {
  return std::visit(Identity{}, key.value);
}

}  // namespace unbroken
