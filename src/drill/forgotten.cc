#include "drill/forgotten.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace unbroken {

namespace {

using Values = std::map<std::string, std::string>;

constexpr std::string_view kModel = "the model", kData = "the position in the data", kRate = "learning rate";

bool is_alike(const Values& a, const Values& b, const std::string& name) {
  const auto in_a = a.find(name), in_b = b.find(name);
  return in_a != a.end() && in_b != b.end() && in_a->second == in_b->second;
}

/// Higher where two are the same step of the same training.
std::size_t likeness(const Values& a, const Values& b) {
  constexpr std::size_t kModelCounts = 1'000'000;
  std::size_t out = is_alike(a, b, std::string(kModel)) ? kModelCounts : 0;
  for (const auto& [name, unused] : a) out += is_alike(a, b, name) ? 1 : 0;
  return out;
}

std::set<std::string> changing(const std::vector<TapStep>& steps) {
  std::set<std::string> out;
  for (const TapStep& step : steps)
    for (const auto& [name, value] : step.values)
      if (const auto first = steps.front().values.find(name);
          first == steps.front().values.end() || first->second != value)
        out.insert(name);
  return out;
}

/// Lower: more telling.
std::size_t rank(const std::string& name) {
  constexpr std::array<std::string_view, 9> kOrder{kModel,    "optimizer", "scheduler", "scaler", "average ",
                                                   "module ", "generator", kData,       kRate};
  for (std::size_t i = 0; i < kOrder.size(); ++i)
    if (name.starts_with(kOrder[i]) ||
        (kOrder[i] == "generator" && name.find("'s generator") != std::string::npos))
      return i;
  return kOrder.size();
}

/// Of one step: what is not alike, without what follows from the rest of it.
std::vector<std::string> not_alike(const Values& straight, const Values& resumed,
                                   const std::set<std::string>& changing) {
  std::vector<std::string> out;
  for (const auto& [name, value] : resumed)
    if (changing.contains(name) && straight.contains(name) && straight.at(name) != value) out.push_back(name);
  std::stable_sort(out.begin(), out.end(),
                   [](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
  const auto has = [&](std::string_view start) {
    return std::any_of(out.begin(), out.end(),
                       [&](const std::string& name) { return name.starts_with(start); });
  };
  const std::size_t others = rank("");
  const bool has_data = has(kData), has_cause_of_rate = has("optimizer") || has("scheduler");
  std::erase_if(out, [&](const std::string& name) {
    // A variable of the script may hold the batch.
    return (has_data && rank(name) == others) || (has_cause_of_rate && name.starts_with(kRate));
  });
  return out;
}

}  // namespace

std::size_t likeliest_begin(const std::vector<TapStep>& straight, const std::vector<TapStep>& resumed) {
  if (straight.empty() || resumed.empty()) return 0;
  const Values& first = resumed.front().values;
  // A model that was forgotten is like the one at the start, where no life resumes.
  const auto from = straight.begin() + (straight.size() > 1 ? 1 : 0);
  const auto best = std::max_element(from, straight.end(), [&](const TapStep& a, const TapStep& b) {
    return likeness(a.values, first) < likeness(b.values, first);
  });
  return static_cast<std::size_t>(best - straight.begin());
}

std::vector<std::string> forgotten(const std::vector<TapStep>& straight, const std::vector<TapStep>& resumed,
                                   std::size_t begins) {
  const std::set<std::string> names = changing(straight);
  for (std::size_t i = 0; i < resumed.size() && begins + i < straight.size(); ++i)
    if (auto out = not_alike(straight[begins + i].values, resumed[i].values, names); !out.empty()) return out;
  return {};
}

bool may_follow_from_generators(const std::vector<std::string>& forgotten) {
  const auto is_generator = [](const std::string& name) { return rank(name) == rank("generator"); };
  return std::find(forgotten.begin(), forgotten.end(), kData) != forgotten.end() &&
         std::any_of(forgotten.begin(), forgotten.end(), is_generator);
}

std::vector<std::string> without_what_followed(std::vector<std::string> forgotten,
                                               const std::vector<TapStep>& straight,
                                               const std::vector<TapStep>& mended, std::size_t begins) {
  const bool is_right = mended.size() > 1 && begins + 1 < straight.size() &&
                        is_alike(straight[begins + 1].values, mended[1].values, std::string(kData));
  if (is_right) std::erase(forgotten, kData);
  return forgotten;
}

}  // namespace unbroken
