#include "drill/compare.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace unbroken {

namespace {

using Texts = std::map<std::string, std::string>;

/// Calls `differs` for each name, in order, that the two do not have alike, until it gives true.
template <class Differs>
void each_difference(const Texts& straight, const Texts& other, Differs differs) {
  static const std::string kNothing;
  auto a = straight.begin();
  auto b = other.begin();
  while (a != straight.end() || b != other.end()) {
    const bool has_a = a != straight.end() && (b == other.end() || a->first <= b->first);
    const bool has_b = b != other.end() && (a == straight.end() || b->first <= a->first);
    const std::string& name = has_a ? a->first : b->first;
    const bool is_alike = has_a && has_b && a->second == b->second;
    if (!is_alike && differs(name, has_a ? a->second : kNothing, has_b ? b->second : kNothing)) return;
    if (has_a) ++a;
    if (has_b) ++b;
  }
}

bool is_global_generator(std::string_view name) {
  return name.starts_with("rng.");
}

}  // namespace

std::set<std::string> unseeded(const std::vector<TapStep>& straight, const std::vector<TapStep>& again) {
  std::set<std::string> out;
  for (std::size_t i = 0; i < std::min(straight.size(), again.size()); ++i)
    for (const auto part : {&TapStep::tensors, &TapStep::values, &TapStep::not_attached})
      each_difference(straight[i].*part, again[i].*part, [&](const std::string& name, auto&...) {
        if (part == &TapStep::not_attached || is_global_generator(name)) out.insert(name);
        return false;
      });
  return out;
}

std::vector<std::string> differing(const TapStep& a, const TapStep& b) {
  std::vector<std::string> out;
  for (const auto part : {&TapStep::tensors, &TapStep::values, &TapStep::metrics})
    each_difference(a.*part, b.*part, [&](const std::string& name, auto&...) {
      out.push_back(name);
      return false;
    });
  return out;
}

std::optional<Difference> Comparison::first_of(const TapStep& straight, const TapStep& other) const {
  std::optional<Difference> found;
  for (const auto part : {&TapStep::tensors, &TapStep::values, &TapStep::metrics, &TapStep::not_attached}) {
    const bool is_both = part == &TapStep::not_attached;  // a variable need not have one at each step
    each_difference(straight.*part, other.*part,
                    [&](const std::string& name, const std::string& a, const std::string& b) {
                      const bool is_told = !is_both || (!a.empty() && !b.empty());
                      if (is_told && !left_out_.contains(name)) found = Difference{0, name, a, b, 0};
                      return found.has_value();
                    });
    if (found) break;
  }
  return found;
}

Comparison::Comparison(const std::vector<TapStep>& straight, std::set<std::string> left_out)
    : left_out_(std::move(left_out)) {
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
