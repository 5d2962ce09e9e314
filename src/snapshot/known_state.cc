#include "snapshot/known_state.h"

#include <variant>

namespace unbroken {

namespace {

/// Null where there is no such place, or something stands in it.
Node* empty_place(Node& tree, const KnownPlace& place) {
  Node* at = &tree;
  for (const std::uint32_t item : place.items) {
    auto* const dict = std::get_if<Dict>(&at->value);
    if (dict == nullptr || item >= dict->items.size()) return nullptr;
    at = &dict->items[item].value;
  }
  return std::holds_alternative<None>(at->value) ? at : nullptr;
}

template <class T>
void put_before(std::vector<T>& rest, const std::vector<T>& known) {
  rest.insert(rest.begin(), known.begin(), known.end());
}

}  // namespace

Result<> put_known(StateView& rest, const KnownState& known, std::span<const KnownPlace> places) {
  for (const KnownPlace& place : places) {
    Node* const at = empty_place(rest.tree, place);
    if (at == nullptr || place.node >= known.nodes.size())
      return Error(Code::bad_argument, "the tree has no place for a part that is known");
    *at = known.nodes[place.node];
  }
  put_before(rest.tensors, known.tensors);
  put_before(rest.aliases, known.aliases);
  put_before(rest.parameters, known.parameters);
  return Done{};
}

}  // namespace unbroken
