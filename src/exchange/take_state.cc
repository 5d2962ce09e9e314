#include "exchange/take_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "base/utf8.h"
#include "exchange/strided.h"
#include "state/names.h"

namespace unbroken {

namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kNodesMax = std::size_t{2} << 20;
constexpr std::size_t kRefusedMax = 10'000;
constexpr std::uint64_t kInlineBytesMax = std::uint64_t{1} << 30;

Error corrupt(std::string why) {
  return Error(Code::corrupt, std::move(why));
}

Node integer_node(const std::string& decimal) {
  std::uint64_t value = 0;
  if (decimal.front() != '-') {
    bool fits = decimal.size() <= 20;
    for (std::size_t i = 0; fits && i < decimal.size(); ++i)
      fits = !__builtin_mul_overflow(value, std::uint64_t{10}, &value) &&
             !__builtin_add_overflow(value, static_cast<std::uint64_t>(decimal[i] - '0'), &value);
    if (fits && value > INT64_MAX) return Node{value};
    if (fits) return Node{static_cast<std::int64_t>(value)};
  }
  if (decimal.size() <= 20) {  // written longer than it had to be
    bool is_small = true;
    std::int64_t negative = 0;
    for (std::size_t i = 1; is_small && i < decimal.size(); ++i)
      is_small = !__builtin_mul_overflow(negative, std::int64_t{10}, &negative) &&
                 !__builtin_sub_overflow(negative, std::int64_t{decimal[i] - '0'}, &negative);
    if (decimal.front() == '-' && is_small) return Node{negative};
  }
  return Node{BigInt{decimal}};
}

void add_unit(std::string& out, unsigned unit) {
  out += static_cast<char>(unit & 255);
  out += static_cast<char>(unit >> 8 & 255);
}

/// A text as Python pickles one: UTF-8 with lone surrogates in three bytes.
Result<Node> text_node(const std::string& text) {
  if (is_utf8(text)) return Node{text};
  Str16 out;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) {
      return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U;
    };
    if (byte(0) == 0xed && byte(1) >= 0xa0 && byte(1) <= 0xbf && (byte(2) & 0xc0U) == 0x80) {
      add_unit(out.units, 0xd000U | (byte(1) & 0x3fU) << 6 | (byte(2) & 0x3fU));
      i += 3;
      continue;
    }
    const unsigned lead = byte(0);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (!is_utf8(std::string_view(text).substr(i, length))) return corrupt("pickle: a text is not UTF-8");
    unsigned point = length == 1 ? lead : lead & (0xffU >> (length + 1));
    for (std::size_t k = 1; k < length; ++k) point = point << 6 | (byte(k) & 0x3fU);
    if (point >= 0x10000) {
      add_unit(out.units, 0xd800U + ((point - 0x10000) >> 10));
      add_unit(out.units, 0xdc00U + ((point - 0x10000) & 0x3ff));
    } else {
      add_unit(out.units, point);
    }
    i += length;
  }
  return Node{std::move(out)};
}

List::Kind list_kind(Kind kind) {
  return kind == Kind::tuple       ? List::Kind::tuple
         : kind == Kind::size      ? List::Kind::size
         : kind == Kind::set       ? List::Kind::set
         : kind == Kind::frozenset ? List::Kind::frozenset
         : kind == Kind::deque     ? List::Kind::deque
                                   : List::Kind::list;
}

Dict::Kind dict_kind(Kind kind) {
  return kind == Kind::ordered_dict  ? Dict::Kind::ordered_dict
         : kind == Kind::counter     ? Dict::Kind::counter
         : kind == Kind::defaultdict ? Dict::Kind::defaultdict_none
                                     : Dict::Kind::dict;
}

std::string shown(const std::string& name) {
  return name.empty() ? "the file" : foreign_text(name);
}

}  // namespace

std::string key_segment(const Node& key, bool is_tensor, Naming naming) {
  const auto* text = std::get_if<std::string>(&key.value);
  const bool is_dotted = text != nullptr && text->find_first_of(".\\") != std::string::npos;
  if (is_tensor && naming == Naming::plain && is_dotted && check_name(*text).ok()) return *text;
  return segment_of_key(key);
}

Result<Node> StateTaker::take(Ref root, const std::string& name, std::string entry, std::size_t depth) {
  const std::size_t known = plan_.refused.size() + plan_.changed.size() + plan_.left_out.size();
  entry_ = std::move(entry);
  UNBROKEN_TRY(Node node, take_value(root, name, depth));
  // Said, and yet in no value that was asked for: a file that does so means nothing good.
  if (known == plan_.refused.size() + plan_.changed.size() + plan_.left_out.size() &&
      !heap_.not_listed.empty())
    return corrupt(
        fmt::format("the pickle names {}, which is not among what may be read; nothing of it was run",
                    *heap_.not_listed.begin()));
  return node;
}

Result<Node> StateTaker::refuse(const std::string& name, std::string what) {
  if (plan_.refused.size() >= kRefusedMax) return corrupt("nearly nothing in it can be kept");
  plan_.refused.push_back({name, entry_, std::move(what)});
  return Node{None{}};
}

Result<Node> StateTaker::take_value(Ref root, const std::string& name, std::size_t depth) {
  const PickleValue& value = heap_.values[root];
  if (depth > kTreeDepthMax)
    return corrupt(fmt::format("{}: nested deeper than {} containers, or contains itself",
                               shown(name.substr(0, 64)), kTreeDepthMax));
  if (++nodes_ > kNodesMax) return corrupt(fmt::format("the file holds more than {} values", kNodesMax));
  switch (value.kind) {
    case Kind::none:
      return Node{None{}};
    case Kind::boolean:
      return Node{value.number != 0};
    case Kind::integer:
      return Node{value.number};
    case Kind::big_integer:
      return integer_node(value.text);
    case Kind::real:
      return Node{Float::of(value.real)};
    case Kind::complex:
      return Node{Complex{Float::of(value.real), Float::of(value.imag)}};
    case Kind::text:
      return text_node(value.text);
    case Kind::bytes:
      return Node{Blob{value.text}};
    case Kind::dtype:
      return Node{value.dtype};
    case Kind::numpy_scalar:
      return Node{NumpyScalar{value.dtype, value.text}};
    case Kind::list:
    case Kind::tuple:
    case Kind::set:
    case Kind::frozenset:
    case Kind::deque:
    case Kind::size:
      return take_items(value, name, depth);
    case Kind::dict:
    case Kind::ordered_dict:
    case Kind::counter:
    case Kind::defaultdict:
      return take_pairs(value, name, depth);
    case Kind::tensor:
    case Kind::array:
      return take_tensor(value, name);
    case Kind::foreign:
      return refuse(name, value.text);
    case Kind::storage:
      return refuse(name, "a storage, which is a part of a tensor and no value");
    default:
      return refuse(name, "a class or a function, which is no value");
  }
}

Result<Node> StateTaker::take_file(Ref root) {
  const Kind kind = heap_.values[root].kind;
  if (kind == Kind::dict || kind == Kind::ordered_dict || kind == Kind::counter || kind == Kind::defaultdict)
    return take(root, "", "");
  constexpr std::string_view kTop = "object";
  UNBROKEN_TRY(Node value, take(root, std::string(kTop), "", 1));
  Dict top;
  top.items.push_back({Node{std::string(kTop)}, std::move(value)});
  return Node{std::move(top)};
}

Result<Node> StateTaker::take_items(const PickleValue& value, const std::string& name, std::size_t depth) {
  List list{.kind = list_kind(value.kind), .items = {}, .max_size = {}};
  std::uint64_t index = 0;
  for (const Ref item : value.items) {
    UNBROKEN_TRY(Node node, take_value(item, join_name(name, segment_of_index(index++)), depth + 1));
    list.items.push_back(std::move(node));
  }
  if (value.kind == Kind::deque && value.number >= 0) {
    list.max_size = static_cast<std::uint64_t>(value.number);
    if (list.items.size() > *list.max_size)
      return corrupt(fmt::format("{}: a deque holds more than its bound", shown(name)));
  }
  if (value.kind == Kind::set || value.kind == Kind::frozenset) {
    std::vector<std::pair<std::string, Node>> sorted;
    for (Node& item : list.items) {
      // Its text is asked for only of what has one in every case.
      if (!is_hashable(item))
        return corrupt(fmt::format("{}: a set holds what cannot be in one", shown(name)));
      UNBROKEN_DO(check_tree(item));
      std::string text = tree_text(item);
      sorted.emplace_back(std::move(text), std::move(item));
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    list.items.clear();
    for (auto& [text, item] : sorted) list.items.push_back(std::move(item));
  }
  return Node{std::move(list)};
}

Result<Node> StateTaker::take_pairs(const PickleValue& value, const std::string& name, std::size_t depth) {
  Dict dict{.kind = dict_kind(value.kind), .items = {}};
  if (value.kind == Kind::defaultdict && !value.is_whole)
    plan_.changed.push_back({name, entry_, "a defaultdict, without its factory, which is code"});
  const std::string above = entry_;
  for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
    const Kind kind = heap_.values[value.items[i + 1]].kind;
    UNBROKEN_TRY(Node key, take_value(value.items[i], name + ".{key}", depth + 1));
    if (!is_hashable(key)) return corrupt(fmt::format("{}: a key cannot be one", shown(name)));
    UNBROKEN_DO(check_tree(key));
    const std::string segment = key_segment(key, kind == Kind::tensor || kind == Kind::array, naming_);
    entry_ = join_name(name, segment);
    if (is_left_out(without_, entry_)) {
      plan_.left_out.push_back(std::move(entry_));
      entry_ = above;
      continue;
    }
    UNBROKEN_TRY(Node item, take_value(value.items[i + 1], join_name(name, segment), depth + 1));
    entry_ = above;
    dict.items.push_back({std::move(key), std::move(item)});
  }
  return Node{std::move(dict)};
}

Result<ImportedPiece> StateTaker::piece_of(const PickleValue& value) {
  ImportedPiece piece;
  const PickledTensor& tensor = heap_.tensors[static_cast<std::size_t>(value.number)];
  piece.strides = tensor.strides;
  piece.box = {Shape(tensor.shape.size(), 0), tensor.shape};
  if (value.kind == Kind::tensor) {
    UNBROKEN_TRY(const StoragePlace place, find_(heap_.values[tensor.storage]));
    piece.file = place.file;
    piece.offset = place.offset + tensor.offset * (bits_of(value.dtype) / 8);
    return piece;
  }
  piece.file = ImportedPiece::kInline;
  const Ref bytes = value.items.front();
  const auto [it, is_new] = inlined_.try_emplace(bytes, plan_.inline_bytes.size());
  piece.offset = it->second;
  if (is_new) plan_.inline_bytes += heap_.values[bytes].text;
  if (plan_.inline_bytes.size() > kInlineBytesMax) return corrupt("its arrays are too large");
  return piece;
}

Result<Node> StateTaker::take_tensor(const PickleValue& value, const std::string& name) {
  const bool is_array = value.kind == Kind::array;
  if (is_array && !value.is_whole) return corrupt(fmt::format("{}: an array without content", shown(name)));
  if (auto fine = check_name(name); !fine.ok()) return corrupt(fine.error().what());
  UNBROKEN_TRY(ImportedPiece piece, piece_of(value));
  const bool has_bytes = std::find(piece.box.end.begin(), piece.box.end.end(), 0U) == piece.box.end.end();
  const std::string memory =
      fmt::format("{} {} {} {} {} {}", is_array, piece.file, piece.offset, name_of(value.dtype),
                  fmt::join(piece.box.end, ","), fmt::join(piece.strides, ","));
  if (has_bytes) {
    const auto [it, is_new] = by_memory_.try_emplace(memory, name);
    if (!is_new) {
      plan_.aliases.push_back({name, it->second});
      return Node{TensorRef{name, is_array}};
    }
  }
  Shape shape = piece.box.end;
  plan_.tensors.push_back({name, value.dtype, std::move(shape), {}});
  if (has_bytes) plan_.tensors.back().pieces.push_back(std::move(piece));
  return Node{TensorRef{name, is_array}};
}

Result<ImportPlan> plan_with_names(const std::function<Result<ImportPlan>(Naming)>& take) {
  UNBROKEN_TRY(ImportPlan plan, take(Naming::plain));
  std::unordered_set<std::string_view> names;
  bool is_unique = true;
  for (const ImportedTensor& tensor : plan.tensors) is_unique = names.insert(tensor.name).second && is_unique;
  for (const Alias& alias : plan.aliases) is_unique = names.insert(alias.name).second && is_unique;
  if (!is_unique) {
    UNBROKEN_TRY(plan, take(Naming::escaped));
  }
  std::sort(plan.aliases.begin(), plan.aliases.end(),
            [](const Alias& a, const Alias& b) { return a.name < b.name; });
  if (plan.refused.empty()) {
    UNBROKEN_DO(check_tree(plan.tree));
  }
  return plan;
}

}  // namespace unbroken
