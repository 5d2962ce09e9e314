#include "snapshot/last_plan.h"

#include <algorithm>
#include <utility>

namespace unbroken {

namespace {

bool is_of(const TensorView& view, const TensorSpec& spec) {
  return view.dtype == spec.dtype && view.shape == spec.shape && view.name == spec.name;
}

}  // namespace

Result<std::shared_ptr<const ShardPlan>> LastPlan::plan(const std::vector<TensorView>& tensors) {
  if (plan_ && std::equal(tensors.begin(), tensors.end(), specs_.begin(), specs_.end(), is_of)) return plan_;
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const TensorView& view : tensors) specs.push_back({view.name, view.dtype, view.shape});
  UNBROKEN_TRY(ShardPlan plan, plan_shard(specs));
  specs_ = std::move(specs);
  plan_ = std::make_shared<const ShardPlan>(std::move(plan));
  return plan_;
}

}  // namespace unbroken
