#include "planner/simulator/failures.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace unbroken {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}

FailureSource::FailureSource(const FailureLaw& law, double mtti_s, std::uint32_t nodes, SeededRandom& random)
    : law_(law), random_(random), node_mtbf_s_(mtti_s * nodes) {
  if (law.kind == FailureLaw::Kind::trace || !std::isfinite(mtti_s)) return;
  scale_s_ = node_mtbf_s_;
  if (law.kind == FailureLaw::Kind::weibull) scale_s_ = node_mtbf_s_ / std::tgamma(1 + 1 / law.shape);
  heap_.reserve(nodes);
  for (std::uint32_t node = 0; node < nodes; ++node) heap_.push_back({draw_first_s(), node});
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
}

double FailureSource::draw_lifetime_s() {
  const double e = random_.exponential();
  return scale_s_ * (law_.kind == FailureLaw::Kind::weibull ? std::pow(e, 1 / law_.shape) : e);
}

/// What is left at a random moment of a lifetime: a uniform part of one drawn in proportion to its length.
/// For Weibull (x/scale)^shape of such a lifetime is Gamma(1 + 1/shape).
double FailureSource::draw_first_s() {
  if (law_.kind != FailureLaw::Kind::weibull) return draw_lifetime_s();
  const double long_one = scale_s_ * std::pow(random_.gamma(1 + 1 / law_.shape), 1 / law_.shape);
  return long_one * random_.uniform();
}

void FailureSource::renew(std::uint32_t node, double now_s) {
  heap_.push_back({now_s + draw_lifetime_s(), node});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

Failure FailureSource::next() {
  const auto is_group = [&] { return law_.correlated > 0 && random_.uniform() < law_.correlated; };
  if (law_.kind == FailureLaw::Kind::trace) {
    if (trace_index_ == law_.trace.size()) return {kInfinity};
    const TracedLife& life = law_.trace[trace_index_++];
    return {life.ends_s, 0, is_group(), life.recovery_s, life.interval_s};
  }
  if (heap_.empty()) return {kInfinity};
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
  const Due clock = heap_.back();
  heap_.pop_back();
  const Failure out{clock.at_s, clock.node, is_group()};
  renew(clock.node, clock.at_s);
  return out;
}

}  // namespace unbroken
