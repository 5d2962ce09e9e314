#pragma once
// The typed state tree: everything of a run's state that is not a tensor, with order and kind kept. It holds
// no code and no class names; a closed list of kinds is all there is.
//
// As JSON (docs/format/state.md is normative):
//   null true false 12 "text"               None, bool, int in [-2^63, 2^64), str
//   {"int":"<decimal>"}                     an int beyond
//   {"float":"<16 hex>"}                    a float by its IEEE bits
//   {"complex":["<16 hex>","<16 hex>"]}     real and imaginary part
//   {"str16":"<hex>"}                       a str that is not UTF-8 encodable, as UTF-16-LE with surrogates
//   {"bytes":"<hex>"}
//   {"tensor":"<name>"} {"array":"<name>"}  a torch tensor, a NumPy array; the bytes are in the shard
//   {"numpy":{"dtype":"F64","bits":"<hex>"}}  a NumPy scalar, little-endian bytes
//   {"dtype":"F32"}                         a torch dtype
//   [...] {"tuple":[...]}                   list, tuple
//   {"dict":[[key,value],...]}              insertion order
//   {"kind":K,"items":[...]}                OrderedDict Counter defaultdict_none (pairs), Size set frozenset
//                                           deque (items; a deque may have "maxlen")
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "state/dtype.h"

namespace unbroken {

struct Node;

struct None {
  friend bool operator==(const None&, const None&) = default;
};
/// Outside [-2^63, 2^64); "-" and digits, no leading zero.
struct BigInt {
  std::string decimal;
  friend bool operator==(const BigInt&, const BigInt&) = default;
};
/// By bits: NaN payloads and the sign of zero count.
struct Float {
  std::uint64_t bits = 0;
  static Float of(double value);
  double value() const;
  friend bool operator==(const Float&, const Float&) = default;
};
struct Complex {
  Float real, imag;
  friend bool operator==(const Complex&, const Complex&) = default;
};
/// UTF-16-LE code units of a text with lone surrogates.
struct Str16 {
  std::string units;
  friend bool operator==(const Str16&, const Str16&) = default;
};
struct Blob {
  std::string bytes;
  friend bool operator==(const Blob&, const Blob&) = default;
};
/// A tensor (torch) or an array (NumPy), by the name it has in an index.
struct TensorRef {
  std::string name;
  bool is_array = false;
  friend bool operator==(const TensorRef&, const TensorRef&) = default;
};
struct NumpyScalar {
  DType dtype = DType::u8;
  std::string bytes;  ///< little-endian
  friend bool operator==(const NumpyScalar&, const NumpyScalar&) = default;
};
struct List {
  enum class Kind : std::uint8_t { list, tuple, size, set, frozenset, deque };
  Kind kind = Kind::list;
  std::vector<Node> items;                ///< of a set: sorted by their canonical JSON
  std::optional<std::uint64_t> max_size;  ///< of a deque
  bool operator==(const List& other) const;
};
/// Key and value; defined below, where Node is whole.
struct DictItem;
struct Dict {
  enum class Kind : std::uint8_t { dict, ordered_dict, counter, defaultdict_none };
  Kind kind = Kind::dict;
  std::vector<DictItem> items;  ///< insertion order
  bool operator==(const Dict& other) const;
};

struct Node {
  /// std::uint64_t only above INT64_MAX; DType is a torch dtype as a value.
  std::variant<None, bool, std::int64_t, std::uint64_t, BigInt, Float, Complex, std::string, Str16, Blob,
               TensorRef, NumpyScalar, DType, List, Dict>
      value;
  bool operator==(const Node& other) const;
};

struct DictItem {
  Node key, value;
  bool operator==(const DictItem& other) const;
};

/// Containers within containers that are accepted.
inline constexpr std::size_t kTreeDepthMax = 64;
/// JSON nesting of a tree of that depth: a pair within an array within an object each.
inline constexpr std::size_t kTreeJsonDepthMax = 3 * (kTreeDepthMax + 1);

/// A tree from what Python wrote or a file holds. Keys of dicts and items of sets must be hashable and
/// unequal (1, 1.0 and true are equal); sets sorted; nothing may have two spellings.
/// Errors: corrupt, naming the place.
Result<Node> node_from_json(const Json& value);
Result<Node> parse_tree(std::string_view json, const JsonLimits& limits = {.depth = kTreeJsonDepthMax});
/// What node_from_json checks beyond the spelling, for a tree made in code. Errors: corrupt.
Result<> check_tree(const Node& node);
/// Canonical JSON. The tree must be one that check_tree() accepts.
std::string tree_text(const Node& node);
void put_tree(std::string& out, const Node& node);  ///< adds tree_text() to `out`

/// True for what may be a dict key or a set item.
bool is_hashable(const Node& node);
/// Text that two keys share exactly where Python holds them equal: 1, 1.0, true and numpy.int64(1).
std::string key_identity(const Node& key);

/// One value that is not a container with items in it.
struct Leaf {
  std::string name;   ///< names.h
  std::string value;  ///< canonical JSON
  bool is_tensor = false;
};
/// Leaves in tree order below `prefix`. A set is one leaf, and so is an empty container.
std::vector<Leaf> flatten(const Node& node, std::string_view prefix = {});
/// Calls `visit` for every tensor and array of the tree.
void each_tensor(const Node& node, const std::function<void(const TensorRef&)>& visit);

/// Where two trees differ: a leaf, a kind, or the order of keys. Tensors are compared by name only.
struct StateDifference {
  std::string name;
  std::optional<std::string> a,
      b;  ///< canonical JSON or a container's kind; empty where only the other has it
};
std::vector<StateDifference> diff_trees(const Node& a, const Node& b, std::string_view prefix = {});

}  // namespace unbroken
