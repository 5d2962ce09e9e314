// Any text: a tree that is accepted has one spelling, and every rule about names and order holds in it.
#include "base/check.h"
#include "state/names.h"
#include "state/tree.h"

using namespace unbroken;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto node = parse_tree({reinterpret_cast<const char*>(data), size});
  if (!node.ok()) {
    UNBROKEN_CHECK(node.is(Code::corrupt));
    return 0;
  }
  const std::string text = tree_text(node.value());
  const auto again = parse_tree(text);
  UNBROKEN_CHECK(again.ok() && again.value() == node.value() && tree_text(again.value()) == text);
  UNBROKEN_CHECK(canonical_json(parse_json(text, {.depth = kTreeJsonDepthMax}).value()).value() == text);
  UNBROKEN_CHECK(diff_trees(node.value(), again.value()).empty());
  each_tensor(node.value(), [](const TensorRef& ref) { UNBROKEN_CHECK(check_name(ref.name).ok()); });
  flatten(node.value());
  return 0;
}
