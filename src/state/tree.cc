#include "state/tree.h"

#include <fmt/format.h>

#include <bit>

#include "state/json_text.h"
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

bool DictItem::operator==(const DictItem& other) const {
  return key == other.key && value == other.value;
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

/// Adds the canonical JSON of each kind. Members of an object stand sorted by name.
class TreeWriter {
 public:
  explicit TreeWriter(std::string& out) : out_(out) {}
  void operator()(const None&) { out_ += "null"; }
  void operator()(bool value) { out_ += value ? "true" : "false"; }
  void operator()(std::int64_t value) { out_ += fmt::format_int(value).c_str(); }
  void operator()(std::uint64_t value) { put_number(out_, value); }
  void operator()(const BigInt& value) { tagged("int", value.decimal); }
  void operator()(const Float& value) { tagged("float", hex_of(value)); }
  void operator()(const Complex& value) {
    out_ += fmt::format(R"({{"complex":["{}","{}"]}})", hex_of(value.real), hex_of(value.imag));
  }
  void operator()(const std::string& value) { put_text(out_, value); }
  void operator()(const Str16& value) { tagged("str16", to_hex(as_bytes(value.units))); }
  void operator()(const Blob& value) { tagged("bytes", to_hex(as_bytes(value.bytes))); }
  void operator()(const TensorRef& value) { tagged(value.is_array ? "array" : "tensor", value.name); }
  void operator()(const NumpyScalar& value) {
    out_ += fmt::format(R"({{"numpy":{{"bits":"{}","dtype":"{}"}}}})", to_hex(as_bytes(value.bytes)),
                        name_of(value.dtype));
  }
  void operator()(DType value) { tagged("dtype", name_of(value)); }
  void operator()(const List& value) {
    if (value.kind == List::Kind::list) return items(value.items);
    if (value.kind == List::Kind::tuple) {
      out_ += R"({"tuple":)";
      items(value.items);
    } else {
      out_ += R"({"items":)";
      items(value.items);
      kind(name_of(value.kind));
      if (value.max_size) out_ += fmt::format(R"(,"maxlen":{})", *value.max_size);
    }
    out_ += '}';
  }
  void operator()(const Dict& value) {
    const bool is_plain = value.kind == Dict::Kind::dict;
    out_ += is_plain ? R"({"dict":)" : R"({"items":)";
    items(value.items);
    if (!is_plain) kind(name_of(value.kind));
    out_ += '}';
  }

 private:
  static std::string hex_of(Float value) { return fmt::format("{:016x}", value.bits); }
  void tagged(std::string_view tag, std::string_view text) {
    out_ += "{\"";
    out_ += tag;
    out_ += "\":";
    put_text(out_, text);
    out_ += '}';
  }
  void kind(std::string_view name) {
    out_ += R"(,"kind":)";
    put_text(out_, name);
  }
  void item(const Node& node) { std::visit(*this, node.value); }
  void item(const DictItem& pair) {
    out_ += '[';
    item(pair.key);
    out_ += ',';
    item(pair.value);
    out_ += ']';
  }
  template <class Item>
  void items(const std::vector<Item>& list) {
    out_ += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i != 0) out_ += ',';
      item(list[i]);
    }
    out_ += ']';
  }

  std::string& out_;
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

void put_tree(std::string& out, const Node& node) {
  std::visit(TreeWriter(out), node.value);
}

std::string tree_text(const Node& node) {
  std::string out;
  put_tree(out, node);
  return out;
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
