#pragma once
// For tests: a plan of what a person would say.
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/plan.h"
#include "planner/settings.h"

namespace unbroken {

using Values = std::map<std::string, std::string, std::less<>>;
using Tiers = std::vector<std::string>;

inline Result<JobInputs> job_of(Values values, Tiers tiers = {}, std::string_view preset = {}) {
  const Settings top{std::move(values), std::move(tiers)};
  UNBROKEN_DO(check_layer(top));
  UNBROKEN_TRY(const Settings all, over_preset(preset, top));
  return job_inputs(all, std::string(preset));
}

inline Result<Plan> plan(Values values, Tiers tiers = {}, std::string_view preset = {}) {
  UNBROKEN_TRY(const JobInputs job, job_of(std::move(values), std::move(tiers), preset));
  return make_plan(job);
}

inline bool warns(const Plan& p, std::string_view code) {
  for (const PlanWarning& w : p.warnings)
    if (w.code == code) return true;
  return false;
}

inline void one_by_one(std::size_t count, const std::function<void(std::size_t)>& work) {
  for (std::size_t i = 0; i < count; ++i) work(i);
}

}  // namespace unbroken
