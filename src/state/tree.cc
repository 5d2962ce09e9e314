#include "state/tree.h"

#include <fmt/format.h>

#include <bit>

#include "base/check.h"
#include "state/kinds.h"
#include "state/names.h"

namespace unbroken {

Float Float::of(double value) {
  return {std::bit_cast<std::uint64_t>(value)};
}

double Float::value() const {
  return std::bit_cast<double>(bits);
}

bool List::operator==(const List& other) const {
  return kind == other.kind && items == other.items && max_size == other.max_size;
}

bool Dict::operator==(const Dict& other) const {
  return kind == other.kind && items == other.items;
}

bool Node::operator==(const Node& other) const {
  return value == other.value;
}

std::string_view name_of(List::Kind kind) {
  switch (kind) {
    case List::Kind::list:
      return "list";
    case List::Kind::tuple:
      return "tuple";
    case List::Kind::size:
      return "Size";
    case List::Kind::set:
      return "set";
    case List::Kind::frozenset:
      return "frozenset";
    case List::Kind::deque:
      return "deque";
  }
  return "list";
}

std::string_view name_of(Dict::Kind kind) {
  switch (kind) {
    case Dict::Kind::dict:
      return "dict";
    case Dict::Kind::ordered_dict:
      return "OrderedDict";
    case Dict::Kind::counter:
      return "Counter";
    case Dict::Kind::defaultdict_none:
      return "defaultdict_none";
  }
  return "dict";
}

namespace {

std::string hex_of(Float value) {
  return fmt::format("{:016x}", value.bits);
}

Json tagged(const char* tag, Json value) {
  Json out = Json::object();
  out[tag] = std::move(value);
  return out;
}

struct ToJson {
  Json operator()(const None&) const { return nullptr; }
  Json operator()(bool value) const { return value; }
  Json operator()(std::int64_t value) const {
    // A number that is not negative reads back as unsigned: make it that here too.
    return value < 0 ? Json(value) : Json(static_cast<std::uint64_t>(value));
  }
  Json operator()(std::uint64_t value) const { return value; }
  Json operator()(const BigInt& value) const { return tagged("int", value.decimal); }
  Json operator()(const Float& value) const { return tagged("float", hex_of(value)); }
  Json operator()(const Complex& value) const {
    return tagged("complex", Json::array({hex_of(value.real), hex_of(value.imag)}));
  }
  Json operator()(const std::string& value) const { return value; }
  Json operator()(const Str16& value) const { return tagged("str16", to_hex(as_bytes(value.units))); }
  Json operator()(const Blob& value) const { return tagged("bytes", to_hex(as_bytes(value.bytes))); }
  Json operator()(const TensorRef& value) const {
    return tagged(value.is_array ? "array" : "tensor", value.name);
  }
  Json operator()(const NumpyScalar& value) const {
    return tagged("numpy", {{"dtype", name_of(value.dtype)}, {"bits", to_hex(as_bytes(value.bytes))}});
  }
  Json operator()(DType value) const { return tagged("dtype", name_of(value)); }
  Json operator()(const List& value) const {
    Json items = Json::array();
    for (const Node& item : value.items) items.push_back(to_json(item));
    if (value.kind == List::Kind::list) return items;
    if (value.kind == List::Kind::tuple) return tagged("tuple", std::move(items));
    Json out{{"kind", name_of(value.kind)}, {"items", std::move(items)}};
    if (value.max_size) out["maxlen"] = *value.max_size;
    return out;
  }
  Json operator()(const Dict& value) const {
    Json items = Json::array();
    for (const auto& [key, item] : value.items) items.push_back(Json::array({to_json(key), to_json(item)}));
    if (value.kind == Dict::Kind::dict) return tagged("dict", std::move(items));
    return {{"kind", name_of(value.kind)}, {"items", std::move(items)}};
  }
};

bool is_leaf(const Node& node) {
  if (const auto* list = std::get_if<List>(&node.value)) return list->items.empty() || is_set(*list);
  if (const auto* dict = std::get_if<Dict>(&node.value)) return dict->items.empty();
  return true;
}

void flatten_into(const Node& node, std::string name, std::vector<Leaf>& out) {
  if (is_leaf(node)) {
    const bool is_tensor = std::holds_alternative<TensorRef>(node.value);
    out.push_back({std::move(name), tree_text(node), is_tensor});
    return;
  }
  if (const auto* list = std::get_if<List>(&node.value)) {
    for (std::size_t i = 0; i < list->items.size(); ++i)
      flatten_into(list->items[i], join_name(name, segment_of_index(i)), out);
    return;
  }
  for (const auto& [key, item] : std::get<Dict>(node.value).items)
    flatten_into(item, join_name(name, segment_of_key(key)), out);
}

}  // namespace

bool is_set(const List& list) {
  return list.kind == List::Kind::set || list.kind == List::Kind::frozenset;
}

Json to_json(const Node& node) {
  return std::visit(ToJson{}, node.value);
}

std::string tree_text(const Node& node) {
  auto text = canonical_json(to_json(node));
  UNBROKEN_CHECK(text.ok());
  return std::move(text).value();
}

std::vector<Leaf> flatten(const Node& node, std::string_view prefix) {
  std::vector<Leaf> out;
  flatten_into(node, std::string(prefix), out);
  return out;
}

void each_tensor(const Node& node, const std::function<void(const TensorRef&)>& visit) {
  if (const auto* ref = std::get_if<TensorRef>(&node.value)) {
    visit(*ref);
  } else if (const auto* list = std::get_if<List>(&node.value)) {
    for (const Node& item : list->items) each_tensor(item, visit);
  } else if (const auto* dict = std::get_if<Dict>(&node.value)) {
    for (const auto& [key, item] : dict->items) each_tensor(item, visit);
  }
}

}  // namespace unbroken
