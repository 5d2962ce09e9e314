#pragma once
// From the values that a pickle built to the state tree and its tensors, with the names they get here.
//
// A key of a dict that names a tensor directly stands in the tensor's name as it is, dots and all: so the
// tensors of a module have the names that the module gives them. Where two tensors would get one name so,
// every name is spelt as docs/format/state.md says.
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "exchange/import_plan.h"
#include "exchange/pickle/pickle_heap.h"

namespace unbroken {

/// Where the bytes of a storage are.
struct StoragePlace {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
};
using FindStorage = std::function<Result<StoragePlace>(const PickleValue& storage)>;

enum class Naming : std::uint8_t { plain, escaped };

/// The segment of a key whose value is, or is not, a tensor.
std::string key_segment(const Node& key, bool is_tensor, Naming naming);

/// Takes the value `root` under the name `name`; tensors, aliases and remarks are added to `plan`, its tree
/// is not touched. What no state can hold stands as None, and among plan.refused. Errors: corrupt (an endless
/// value, over a cap, a name that is not on the list and led to nothing).
class StateTaker {
 public:
  StateTaker(const PickleHeap& heap, FindStorage find, Naming naming, ImportPlan& plan, LeftOut without = {})
      : heap_(heap), find_(std::move(find)), naming_(naming), plan_(plan), without_(without) {}
  /// `entry` is what refusals of the value itself give as ImportRemark::entry.
  Result<Node> take(Ref root, const std::string& name, std::string entry, std::size_t depth = 0);
  /// The same for a whole file: what is no dict is put under the key `object`, as a run has a dict at its
  /// top.
  Result<Node> take_file(Ref root);

 private:
  Result<Node> take_value(Ref root, const std::string& name, std::size_t depth);
  Result<Node> refuse(const std::string& name, std::string what);
  Result<Node> take_items(const PickleValue& value, const std::string& name, std::size_t depth);
  Result<Node> take_pairs(const PickleValue& value, const std::string& name, std::size_t depth);
  Result<Node> take_tensor(const PickleValue& value, const std::string& name);
  Result<ImportedPiece> piece_of(const PickleValue& value);

  const PickleHeap& heap_;
  FindStorage find_;
  Naming naming_;
  ImportPlan& plan_;
  LeftOut without_;
  std::string entry_;
  std::map<std::string, std::string> by_memory_;  // what a tensor is made of -> its first name
  std::map<Ref, std::uint64_t> inlined_;          // bytes that are in the plan already
  std::size_t nodes_ = 0;
};

/// The plan of a whole file that holds one value: names are plain, or escaped where two would be the same.
/// `take` fills the plan with the naming it is given. Errors: those of `take`; corrupt.
Result<ImportPlan> plan_with_names(const std::function<Result<ImportPlan>(Naming)>& take);

}  // namespace unbroken
