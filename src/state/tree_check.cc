// What must hold in a tree: every value has one spelling, and any other is refused.
#include <fmt/format.h>

#include <string_view>
#include <unordered_set>

#include "base/utf8.h"
#include "state/kinds.h"
#include "state/names.h"
#include "state/tree.h"

namespace unbroken {

namespace {

Error corrupt(std::string what) {
  return Error(Code::corrupt, std::move(what));
}

bool is_beyond(std::string_view digits, std::string_view limit) {
  return digits.size() != limit.size() ? digits.size() > limit.size() : digits > limit;
}

Result<> check_big_int(std::string_view decimal) {
  const bool is_negative = decimal.starts_with('-');
  const std::string_view digits = decimal.substr(is_negative ? 1 : 0);
  if (digits.empty() || digits.front() == '0' ||
      digits.find_first_not_of("0123456789") != std::string_view::npos)
    return corrupt("an integer is not written in digits");
  if (!is_beyond(digits, is_negative ? "9223372036854775808" : "18446744073709551615"))
    return corrupt("an integer of 64 bits is written as a long one");
  return Done{};
}

bool has_lone_surrogate(std::string_view units) {
  const auto at = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(units[i]) |
                                 static_cast<unsigned char>(units[i + 1]) << 8);
  };
  for (std::size_t i = 0; i < units.size(); i += 2) {
    const unsigned unit = at(i);
    if (unit < 0xd800 || unit > 0xdfff) continue;
    const bool is_pair = unit <= 0xdbff && i + 2 < units.size() && at(i + 2) >= 0xdc00 && at(i + 2) <= 0xdfff;
    if (!is_pair) return true;
    i += 2;
  }
  return false;
}

Result<> check_numpy(const NumpyScalar& scalar) {
  if (scalar.bytes.size() * 8 != bits_of(scalar.dtype))
    return corrupt(
        fmt::format("a NumPy scalar of {} has {} bytes", name_of(scalar.dtype), scalar.bytes.size()));
  if (scalar.dtype == DType::boolean && static_cast<unsigned char>(scalar.bytes[0]) > 1)
    return corrupt("a NumPy bool is 00 or 01");
  return Done{};
}

/// Finds the item that Python would hold equal to one before it.
class Distinct {
 public:
  bool add(const Node& node) {
    if (const auto* text = std::get_if<std::string>(&node.value)) return texts_.insert(*text).second;
    return others_.insert(key_identity(node)).second;
  }

 private:
  std::unordered_set<std::string_view> texts_;
  std::unordered_set<std::string> others_;
};

class TreeCheck {
 public:
  Result<> operator()(const None&) { return Done{}; }
  Result<> operator()(bool) { return Done{}; }
  Result<> operator()(std::int64_t) { return Done{}; }
  Result<> operator()(std::uint64_t value) {
    if (value <= INT64_MAX) return corrupt("a small integer is held as a large one");
    return Done{};
  }
  Result<> operator()(const BigInt& value) { return check_big_int(value.decimal); }
  Result<> operator()(const Float&) { return Done{}; }
  Result<> operator()(const Complex&) { return Done{}; }
  Result<> operator()(const std::string& value) {
    if (!is_utf8(value)) return corrupt("a text is not UTF-8");
    return Done{};
  }
  Result<> operator()(const Str16& value) {
    if (value.units.size() % 2 != 0) return corrupt("a UTF-16 text has an odd number of bytes");
    if (!has_lone_surrogate(value.units)) return corrupt("a text that UTF-8 can hold is written as UTF-16");
    return Done{};
  }
  Result<> operator()(const Blob&) { return Done{}; }
  Result<> operator()(const TensorRef& value) {
    if (auto fine = check_name(value.name); !fine.ok()) return corrupt(fine.error().what());
    return Done{};
  }
  Result<> operator()(const NumpyScalar& value) { return check_numpy(value); }
  Result<> operator()(DType) { return Done{}; }
  Result<> operator()(const List& list) {
    UNBROKEN_DO(enter());
    for (std::size_t i = 0; i < list.items.size(); ++i) UNBROKEN_DO(at(list.items[i], name_of(list.kind), i));
    --depth_;
    if (list.max_size && (list.kind != List::Kind::deque || *list.max_size < list.items.size()))
      return corrupt("a deque holds more than its maxlen");
    if (list.kind == List::Kind::size) UNBROKEN_DO(check_size(list));
    if (is_set(list)) UNBROKEN_DO(check_set(list));
    return Done{};
  }
  Result<> operator()(const Dict& dict) {
    UNBROKEN_DO(enter());
    Distinct keys;
    for (std::size_t i = 0; i < dict.items.size(); ++i) {
      const auto& [key, item] = dict.items[i];
      const auto place = [&] { return fmt::format("{}[{}]", name_of(dict.kind), i); };
      if (!is_hashable(key)) return corrupt("a key that cannot be one").with(place());
      UNBROKEN_DO(at(key, name_of(dict.kind), i));
      if (!keys.add(key)) return corrupt("a key stands twice").with(place());
      UNBROKEN_DO(at(item, name_of(dict.kind), i));
    }
    --depth_;
    return Done{};
  }

 private:
  Result<> at(const Node& node, std::string_view kind, std::size_t index) {
    auto fine = std::visit(*this, node.value);
    if (!fine.ok()) return std::move(fine).error().with(fmt::format("{}[{}]", kind, index));
    return fine;
  }

  static Result<> check_size(const List& size) {
    for (const Node& item : size.items)
      if (!std::holds_alternative<std::int64_t>(item.value)) return corrupt("a Size holds integers");
    return Done{};
  }

  static Result<> check_set(const List& set) {
    Distinct seen;
    std::string last;
    for (const Node& item : set.items) {
      if (!is_hashable(item)) return corrupt("a set holds what cannot be in one");
      std::string text = tree_text(item);
      if (!last.empty() && text <= last) return corrupt("a set is not sorted");
      if (!seen.add(item)) return corrupt("a set holds an item twice");
      last = std::move(text);
    }
    return Done{};
  }

  Result<> enter() {
    if (++depth_ > kTreeDepthMax)
      return corrupt(fmt::format("nested deeper than {} containers", kTreeDepthMax));
    return Done{};
  }

  std::size_t depth_ = 0;
};

}  // namespace

Result<> check_tree(const Node& node) {
  return std::visit(TreeCheck{}, node.value);
}

}  // namespace unbroken
