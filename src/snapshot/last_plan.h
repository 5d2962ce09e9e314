#pragma once
// The plan of the shard before. While the tensors are the same but for their bytes it is also that of the
// next one, and no boundary waits until their names are sorted and written anew.
#include <memory>
#include <vector>

#include "base/result.h"
#include "format/shard.h"
#include "unbroken/tensor.h"

namespace unbroken {

class LastPlan {
 public:
  /// Errors: those of plan_shard().
  Result<std::shared_ptr<const ShardPlan>> plan(const std::vector<TensorView>& tensors);

 private:
  std::vector<TensorSpec> specs_;
  std::shared_ptr<const ShardPlan> plan_;  // of these; null where there is none
};

}  // namespace unbroken
