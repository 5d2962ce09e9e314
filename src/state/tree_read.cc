// The typed tree out of JSON: structure here, everything else in check_tree().
#include <fmt/format.h>

#include <array>

#include "state/kinds.h"
#include "state/tree.h"

namespace unbroken {

namespace {

Error corrupt(std::string_view what) {
  return Error(Code::corrupt, std::string(what));
}

/// A JSON text member as bytes.
Result<std::string> hex_bytes(const Json& value) {
  if (!value.is_string()) return corrupt("hex digits are missing");
  auto raw = from_hex(value.get_ref<const std::string&>());
  if (!raw.ok()) return corrupt(raw.error().what());
  return raw;
}

Result<Float> float_from(const Json& value) {
  UNBROKEN_TRY(const std::string raw, hex_bytes(value));
  if (raw.size() != 8) return corrupt("a float has 16 hex digits");
  Float out;
  for (const char c : raw) out.bits = out.bits << 8 | static_cast<unsigned char>(c);
  return out;
}

Result<Complex> complex_from(const Json& value) {
  if (!value.is_array() || value.size() != 2) return corrupt("a complex number has two parts");
  Complex out;
  UNBROKEN_TRY(out.real, float_from(value[0]));
  UNBROKEN_TRY(out.imag, float_from(value[1]));
  return out;
}

Result<BigInt> big_int_from(const Json& value) {
  if (!value.is_string()) return corrupt("an integer's digits are missing");
  return BigInt{value.get<std::string>()};
}

Result<Str16> str16_from(const Json& value) {
  UNBROKEN_TRY(std::string units, hex_bytes(value));
  return Str16{std::move(units)};
}

Result<TensorRef> tensor_from(const Json& value, bool is_array) {
  if (!value.is_string()) return corrupt("a tensor's name is missing");
  return TensorRef{value.get<std::string>(), is_array};
}

Result<DType> dtype_from(const Json& value) {
  const auto dtype = value.is_string() ? dtype_from_name(value.get_ref<const std::string&>()) : std::nullopt;
  if (!dtype) return corrupt("not the name of a dtype");
  return *dtype;
}

Result<NumpyScalar> numpy_from(const Json& value) {
  if (!value.is_object() || value.size() != 2 || !value.contains("dtype") || !value.contains("bits"))
    return corrupt("a NumPy scalar has dtype and bits");
  NumpyScalar out;
  UNBROKEN_TRY(out.dtype, dtype_from(value["dtype"]));
  UNBROKEN_TRY(out.bytes, hex_bytes(value["bits"]));
  return out;
}

template <class T>
Result<Node> as_node(Result<T> value) {
  if (!value.ok()) return std::move(value).error();
  return Node{std::move(value).value()};
}

constexpr std::array kListKinds{List::Kind::size, List::Kind::set, List::Kind::frozenset, List::Kind::deque};
constexpr std::array kDictKinds{Dict::Kind::ordered_dict, Dict::Kind::counter, Dict::Kind::defaultdict_none};

class TreeReader {
 public:
  Result<Node> read(const Json& value) {
    switch (value.type()) {
      case Json::value_t::null:
        return Node{None{}};
      case Json::value_t::boolean:
        return Node{value.get<bool>()};
      case Json::value_t::number_integer:
        return Node{value.get<std::int64_t>()};
      case Json::value_t::number_unsigned: {
        const auto number = value.get<std::uint64_t>();
        return number <= INT64_MAX ? Node{static_cast<std::int64_t>(number)} : Node{number};
      }
      case Json::value_t::string:
        return Node{value.get<std::string>()};
      case Json::value_t::array:
        return list(value, List::Kind::list);
      case Json::value_t::object:
        return value.size() == 1 ? tagged(value.begin().key(), value.begin().value()) : kind(value);
      default:
        return corrupt("a plain JSON number with a fraction, or beyond 64 bits, stands in the tree");
    }
  }

 private:
  Result<Node> tagged(const std::string& tag, const Json& value) {
    if (tag == "tensor") return as_node(tensor_from(value, false));
    if (tag == "array") return as_node(tensor_from(value, true));
    if (tag == "dict") return dict(value, Dict::Kind::dict);
    if (tag == "tuple") return list(value, List::Kind::tuple);
    if (tag == "float") return as_node(float_from(value));
    if (tag == "int") return as_node(big_int_from(value));
    if (tag == "complex") return as_node(complex_from(value));
    if (tag == "str16") return as_node(str16_from(value));
    if (tag == "numpy") return as_node(numpy_from(value));
    if (tag == "dtype") return as_node(dtype_from(value));
    if (tag == "bytes") {
      UNBROKEN_TRY(std::string bytes, hex_bytes(value));
      return Node{Blob{std::move(bytes)}};
    }
    return corrupt(fmt::format("unknown kind of value \"{}\"", tag.substr(0, 32)));
  }

  Result<Node> kind(const Json& value) {
    const auto name = value.find("kind");
    const auto items = value.find("items");
    if (name == value.end() || items == value.end() || !name->is_string())
      return corrupt("an object is no value of the tree");
    const auto& text = name->get_ref<const std::string&>();
    const auto bound = value.find("maxlen");
    const bool is_deque = text == name_of(List::Kind::deque);
    if (value.size() != (is_deque && bound != value.end() ? 3 : 2)) return corrupt("unknown member");
    for (const List::Kind k : kListKinds)
      if (text == name_of(k)) return list(*items, k, bound == value.end() ? nullptr : &*bound);
    for (const Dict::Kind k : kDictKinds)
      if (text == name_of(k)) return dict(*items, k);
    return corrupt(fmt::format("unknown kind \"{}\"", text.substr(0, 32)));
  }

  Result<Node> list(const Json& value, List::Kind kind, const Json* bound = nullptr) {
    if (!value.is_array()) return corrupt("items are not a list");
    List out{kind, {}, std::nullopt};
    if (bound != nullptr) {
      if (!bound->is_number_unsigned()) return corrupt("a deque's maxlen is not a number");
      out.max_size = bound->get<std::uint64_t>();
    }
    UNBROKEN_DO(enter());
    out.items.reserve(value.size());
    for (const Json& item : value) {
      auto node = read(item);
      if (!node.ok())
        return std::move(node).error().with(fmt::format("{}[{}]", name_of(kind), out.items.size()));
      out.items.push_back(std::move(node).value());
    }
    --depth_;
    return Node{std::move(out)};
  }

  Result<Node> dict(const Json& value, Dict::Kind kind) {
    if (!value.is_array()) return corrupt("a dict is not a list of pairs");
    UNBROKEN_DO(enter());
    Dict out{kind, {}};
    out.items.reserve(value.size());
    for (const Json& pair : value) {
      const auto place = [&] { return fmt::format("{}[{}]", name_of(kind), out.items.size()); };
      if (!pair.is_array() || pair.size() != 2) return corrupt("not a pair").with(place());
      auto key = read(pair[0]);
      if (!key.ok()) return std::move(key).error().with(place() + " key");
      auto item = read(pair[1]);
      if (!item.ok()) return std::move(item).error().with(place());
      out.items.push_back({std::move(key).value(), std::move(item).value()});
    }
    --depth_;
    return Node{std::move(out)};
  }

  Result<> enter() {
    if (++depth_ > kTreeDepthMax)
      return corrupt(fmt::format("nested deeper than {} containers", kTreeDepthMax));
    return Done{};
  }

  std::size_t depth_ = 0;
};

}  // namespace

Result<Node> node_from_json(const Json& value) {
  UNBROKEN_TRY(Node node, TreeReader().read(value));
  UNBROKEN_DO(check_tree(node));
  return node;
}

Result<Node> parse_tree(std::string_view json, const JsonLimits& limits) {
  UNBROKEN_TRY(const Json value, parse_json(json, limits));
  return node_from_json(value);
}

}  // namespace unbroken
