#include "drill/compare.h"

#include <algorithm>

namespace unbroken {

namespace {

using Texts = std::map<std::string, std::string>;

/// The first name, in order, that the two do not have alike.
std::optional<Difference> first_of(const Texts& straight, const Texts& other) {
  auto a = straight.begin();
  auto b = other.begin();
  while (a != straight.end() || b != other.end()) {
    if (b == other.end() || (a != straight.end() && a->first < b->first))
      return Difference{0, a->first, a->second, {}};
    if (a == straight.end() || b->first < a->first) return Difference{0, b->first, {}, b->second};
    if (a->second != b->second) return Difference{0, a->first, a->second, b->second};
    ++a;
    ++b;
  }
  return std::nullopt;
}

std::optional<Difference> first_of(const TapStep& straight, const TapStep& other) {
  if (auto found = first_of(straight.tensors, other.tensors)) return found;
  if (auto found = first_of(straight.values, other.values)) return found;
  return first_of(straight.metrics, other.metrics);
}

}  // namespace

Comparison::Comparison(const std::vector<TapStep>& straight) {
  for (const TapStep& step : straight) steps_[step.step].push_back(step);
}

void Comparison::add(std::size_t life, const std::vector<TapStep>& steps) {
  for (const TapStep& step : steps) {
    seen_.insert(step.step);
    if (first_ && first_->step <= step.step) continue;
    const auto expected = steps_.find(step.step);
    if (expected == steps_.end()) {
      first_ = Difference{step.step, "step", {}, "completed", life};
      continue;
    }
    std::optional<Difference> least;
    for (const TapStep& one : expected->second) {
      auto found = first_of(one, step);
      if (!least || !found) least = std::move(found);
      if (!least) break;
    }
    if (!least) continue;
    first_ = std::move(least);
    first_->step = step.step;
    first_->life = life;
  }
}

std::optional<Difference> Comparison::first_difference(bool is_over) const {
  if (!is_over) return first_;
  for (const auto& [step, unused] : steps_) {
    if (first_ && first_->step <= step) break;
    if (!seen_.contains(step)) return Difference{step, "step", "completed", {}, 0};
  }
  return first_;
}

}  // namespace unbroken
