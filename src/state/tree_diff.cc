// Where two trees differ, for `unbroken diff`.
#include <unordered_map>

#include "state/kinds.h"
#include "state/names.h"
#include "state/tree.h"

namespace unbroken {

namespace {

/// What stands for a node in a difference: a container by its kind alone.
std::string brief(const Node& node) {
  if (const auto* list = std::get_if<List>(&node.value); list && !is_set(*list))
    return list->max_size
               ? std::string(name_of(list->kind)) + "(maxlen=" + std::to_string(*list->max_size) + ")"
               : std::string(name_of(list->kind));
  if (const auto* dict = std::get_if<Dict>(&node.value)) return std::string(name_of(dict->kind));
  return tree_text(node);
}

class TreeDiff {
 public:
  std::vector<StateDifference> take() { return std::move(out_); }

  void walk(const Node& a, const Node& b, const std::string& name) {
    const auto *list_a = std::get_if<List>(&a.value), *list_b = std::get_if<List>(&b.value);
    const auto *dict_a = std::get_if<Dict>(&a.value), *dict_b = std::get_if<Dict>(&b.value);
    if (list_a && list_b && list_a->kind == list_b->kind && list_a->max_size == list_b->max_size &&
        !is_set(*list_a)) {
      lists(*list_a, *list_b, name);
    } else if (dict_a && dict_b && dict_a->kind == dict_b->kind) {
      dicts(*dict_a, *dict_b, name);
    } else if (!(a == b)) {
      out_.push_back({name, brief(a), brief(b)});
    }
  }

 private:
  void only(const Node& node, const std::string& name, bool is_in_a) {
    for (Leaf& leaf : flatten(node, name)) {
      StateDifference difference{std::move(leaf.name), std::nullopt, std::nullopt};
      (is_in_a ? difference.a : difference.b) = std::move(leaf.value);
      out_.push_back(std::move(difference));
    }
  }

  void lists(const List& a, const List& b, const std::string& name) {
    for (std::size_t i = 0; i < std::max(a.items.size(), b.items.size()); ++i) {
      const std::string item = join_name(name, segment_of_index(i));
      if (i >= a.items.size()) {
        only(b.items[i], item, false);
      } else if (i >= b.items.size()) {
        only(a.items[i], item, true);
      } else {
        walk(a.items[i], b.items[i], item);
      }
    }
  }

  void dicts(const Dict& a, const Dict& b, const std::string& name) {
    std::unordered_map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < b.items.size(); ++i) places.emplace(segment_of_key(b.items[i].key), i);
    std::vector<bool> is_shared(b.items.size(), false);
    std::size_t last = 0;
    bool is_ordered = true;
    for (const auto& [key, value] : a.items) {
      const std::string segment = segment_of_key(key);
      const auto it = places.find(segment);
      if (it == places.end()) {
        only(value, join_name(name, segment), true);
        continue;
      }
      is_shared[it->second] = true;
      is_ordered = is_ordered && it->second >= last;
      last = it->second;
      walk(value, b.items[it->second].value, join_name(name, segment));
    }
    for (std::size_t i = 0; i < b.items.size(); ++i)
      if (!is_shared[i]) only(b.items[i].value, join_name(name, segment_of_key(b.items[i].key)), false);
    if (!is_ordered) out_.push_back({name, "keys in one order", "keys in another"});
  }

  std::vector<StateDifference> out_;
};

}  // namespace

std::vector<StateDifference> diff_trees(const Node& a, const Node& b, std::string_view prefix) {
  TreeDiff diff;
  diff.walk(a, b, std::string(prefix));
  return diff.take();
}

}  // namespace unbroken
