// Any bytes as a pickle of torch.save or as a .metadata: refused as damage, or read to a tree that the format
// accepts. Nothing else can happen to them.
#include "base/check.h"
#include "exchange/foreign_files.h"
#include "exchange/pickle/unpickle.h"

using namespace unbroken;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  constexpr PickleLimits kLimits{
      .values = 1 << 16, .items = 1 << 18, .text_bytes = 1 << 24, .stack = 1 << 16};
  PickleHeap heap;
  std::string_view rest = input;
  const auto root = unpickle(rest, PickleDialect::torch_file, heap, kLimits);
  if (root.ok()) {
    ImportPlan plan;
    const FindStorage find = [](const PickleValue&) -> Result<StoragePlace> { return StoragePlace{}; };
    StateTaker taker(heap, find, Naming::escaped, plan);
    const auto tree = taker.take_file(root.value());
    if (tree.ok() && check_tree(tree.value()).ok())
      UNBROKEN_CHECK(parse_tree(tree_text(tree.value())).value() == tree.value());
    UNBROKEN_CHECK(tree.ok() || tree.is(Code::corrupt));
  } else {
    UNBROKEN_CHECK(root.is(Code::corrupt));
  }
  const auto plan = read_dcp(input, {});
  UNBROKEN_CHECK(plan.ok() || plan.is(Code::corrupt));
  return 0;
}
