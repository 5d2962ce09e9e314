#include "cadence/failure_rate.h"

#include <algorithm>
#include <cmath>

namespace unbroken {

namespace {

/// The chance that the rate changed between two failures.
constexpr double kChange = 1.0 / 40;
/// After a change the prior says less than at the start, so that ten failures outweigh it.
constexpr double kFreshWeight = 0.5;
/// In place of no time at all.
constexpr double kTiny = 1e-12;

double survival_log(double shape, double node_days, double more) {
  return -shape * std::log1p(more / node_days);
}

/// Density of one failure after `more` node-days under Gamma(shape, node_days): Lomax.
double failure_log(double shape, double node_days, double more) {
  return std::log(shape / (node_days + more)) + survival_log(shape, node_days, more);
}

}  // namespace

FailureRate::FailureRate(const FailurePrior& prior) : prior_(prior) {
  regimes_[0] = fresh(0);
  if (const double rate = prior.per_1000_node_days / 1000; rate > 0)
    regimes_[0] = {0, prior.weight, prior.weight / rate};
  count_ = 1;
}

FailureRate::Regime FailureRate::fresh(double log_weight) const {
  const double rate = prior_.per_1000_node_days / 1000;
  return {log_weight, kFreshWeight,
          kFreshWeight / (rate > 0 ? rate : FailurePrior{}.per_1000_node_days / 1000)};
}

void FailureRate::on_failure() {
  failures_ += 1;
  node_days_ += pending_;
  const double gap = std::max(pending_, kTiny);
  pending_ = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    Regime& r = regimes_[i];
    r.log_weight += std::log1p(-kChange) + failure_log(r.shape, r.node_days, gap);
  }
  Regime begun = fresh(0);
  begun.log_weight = std::log(kChange) + failure_log(begun.shape, begun.node_days, gap);
  for (std::size_t i = 0; i < count_; ++i) {
    regimes_[i].shape += 1;
    regimes_[i].node_days += gap;
  }
  begun.shape += 1;
  begun.node_days += gap;

  const auto lighter = [](const Regime& a, const Regime& b) { return a.log_weight < b.log_weight; };
  auto* const end = regimes_.data() + count_;
  if (count_ < kRegimes) {
    regimes_[count_++] = begun;
  } else {
    *std::min_element(regimes_.data(), end, lighter) = begun;
  }
  const double heaviest = std::max_element(regimes_.data(), regimes_.data() + count_, lighter)->log_weight;
  double sum = 0;
  for (std::size_t i = 0; i < count_; ++i) sum += std::exp(regimes_[i].log_weight - heaviest);
  for (std::size_t i = 0; i < count_; ++i) regimes_[i].log_weight -= heaviest + std::log(sum);
}

template <class Use>
void FailureRate::for_each_part(Use use) const {
  // The time since the last failure speaks too: it favours the regimes that expected it to be long. One more
  // part stands for a change since then.
  std::array<double, kRegimes + 1> weights;
  std::array<Regime, kRegimes + 1> parts;
  double sum = 0;
  for (std::size_t i = 0; i <= count_; ++i) {
    parts[i] = i < count_ ? regimes_[i] : fresh(std::log(kChange));
    weights[i] = std::exp(parts[i].log_weight + survival_log(parts[i].shape, parts[i].node_days, pending_));
    sum += weights[i];
  }
  for (std::size_t i = 0; i <= count_; ++i)
    use(sum > 0 ? weights[i] / sum : 1 / static_cast<double>(count_ + 1), parts[i].shape,
        parts[i].node_days + pending_);
}

double FailureRate::per_node_day() const {
  if (expects_none()) return 0;
  double mean = 0;
  for_each_part([&](double weight, double shape, double node_days) { mean += weight * shape / node_days; });
  return mean;
}

double FailureRate::quantile_per_node_day(double share) const {
  if (expects_none()) return 0;
  const auto below = [&](double rate) {
    double sum = 0;
    for_each_part([&](double weight, double shape, double node_days) {
      if (weight > 1e-9) sum += weight * gamma_p(shape, rate * node_days);
    });
    return sum;
  };
  double low = 0;
  double high = per_node_day();
  while (below(high) < share && high < 1e30) high *= 2;
  for (int i = 0; i < 60 && high - low > 1e-9 * high; ++i) {
    const double middle = (low + high) / 2;
    (below(middle) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

double gamma_p(double a, double x) {
  if (!(x > 0)) return 0;
  const double scale = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < 1000 && term > sum * 1e-16; ++n) sum += term *= x / (a + n);
    return std::min(sum * scale, 1.0);
  }
  // Q(a, x) as a continued fraction, by Lentz's method.
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int n = 1; n < 1000; ++n) {
    const double k = -n * (n - a);
    b += 2;
    d = 1 / (k * d + b);
    c = b + k / c;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return std::clamp(1 - scale * h, 0.0, 1.0);
}

}  // namespace unbroken
