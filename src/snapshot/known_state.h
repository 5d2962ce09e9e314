#pragma once
// What the state of one boundary has in common with that of the next: tensors that lie where they lay, under
// the names that they had, and the parts of the tree that hold them. It is handed over once, and named from
// then on. Nothing here reads through an address of it: whoever uses it has looked that all of it is still
// so.
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "snapshot/state_view.h"

namespace unbroken {

struct KnownState {
  std::vector<TensorView> tensors;
  std::vector<Alias> aliases;
  std::vector<std::uint32_t> parameters;
  std::vector<Node> nodes;
};

/// Where a node of it belongs in a tree: the value of an item of an item ... of the root, by their indices.
struct KnownPlace {
  std::uint32_t node;
  std::vector<std::uint32_t> items;
};

/// Puts what is known before the tensors, aliases and parameters of `rest`, whose indices count with it, and
/// into its tree, where None stands in its places. Errors: bad_argument (no such node, no such place).
Result<> put_known(StateView& rest, const KnownState& known, std::span<const KnownPlace> places);

}  // namespace unbroken
