#include "cadence/failure_rate.h"

#include <algorithm>
#include <cmath>

namespace unbroken {

namespace {

/// The chance that the rate changed between two failures.
constexpr double kChange = 1.0 / 40;
/// What a change is expected to be, either way: so many times as often. Weight: in failures, so that a few
/// outweigh it.
constexpr double kStep = 5;
constexpr double kFreshWeight = 1;
/// In place of no time at all.
constexpr double kTiny = 1e-12;

constexpr double kAssumedDays = 0.25;

double survival_log(double shape, double node_days, double more) {
  return -shape * std::log1p(more / node_days);
}

/// Density of one failure after `more` node-days under Gamma(shape, node_days): Lomax.
double failure_log(double shape, double node_days, double more) {
  return std::log(shape / (node_days + more)) + survival_log(shape, node_days, more);
}

}  // namespace

FailurePrior FailurePrior::assumed(double nodes) {
  FailurePrior out;
  out.weight = std::min(out.weight, out.per_1000_node_days / 1000 * nodes * kAssumedDays);
  return out;
}

FailureRate::FailureRate(const FailurePrior& prior) : prior_(prior) {
  const double rate = per_node_day_expected();
  regimes_[0] = {0, prior.weight, prior.weight / rate};
  count_ = 1;
}

double FailureRate::per_node_day_expected() const {
  return (prior_.per_1000_node_days > 0 ? prior_.per_1000_node_days : FailurePrior{}.per_1000_node_days) /
         1000;
}

std::array<FailureRate::Regime, 2> FailureRate::after_change(double rate) const {
  // Rarer is so much likelier that the mean stays what it is until something speaks for a change.
  const double often = kChange / (1 + kStep);
  return {{{std::log(often), kFreshWeight, kFreshWeight / (rate * kStep)},
           {std::log(often * kStep), kFreshWeight, kFreshWeight / (rate / kStep)}}};
}

void FailureRate::add(const Regime& regime) {
  if (count_ < kRegimes) {
    regimes_[count_++] = regime;
    return;
  }
  Regime* lightest =
      std::min_element(regimes_.data(), regimes_.data() + count_,
                       [](const Regime& a, const Regime& b) { return a.log_weight < b.log_weight; });
  if (lightest->log_weight < regime.log_weight) *lightest = regime;
}

void FailureRate::on_failure() {
  const std::array<Regime, 2> begun = after_change(mean_rate(0));
  failures_ += 1;
  node_days_ += pending_;
  const double gap = std::max(pending_, kTiny);
  pending_ = 0;
  const auto take = [&](Regime regime, double log_prior) {
    regime.log_weight += log_prior + failure_log(regime.shape, regime.node_days, gap);
    regime.shape += 1;
    regime.node_days += gap;
    return regime;
  };
  for (std::size_t i = 0; i < count_; ++i) regimes_[i] = take(regimes_[i], std::log1p(-kChange));
  for (const Regime& regime : begun) add(take(regime, 0));

  double heaviest = regimes_[0].log_weight, sum = 0;
  for (std::size_t i = 1; i < count_; ++i) heaviest = std::max(heaviest, regimes_[i].log_weight);
  for (std::size_t i = 0; i < count_; ++i) sum += std::exp(regimes_[i].log_weight - heaviest);
  for (std::size_t i = 0; i < count_; ++i) regimes_[i].log_weight -= heaviest + std::log(sum);
}

double FailureRate::mean_rate(double pending) const {
  double mean = 0, sum = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const Regime& r = regimes_[i];
    const double weight = std::exp(r.log_weight + survival_log(r.shape, r.node_days, pending));
    mean += weight * r.shape / (r.node_days + pending);
    sum += weight;
  }
  return sum > 0 ? mean / sum : regimes_[0].shape / (regimes_[0].node_days + pending);
}

template <class Use>
void FailureRate::for_each_part(Use use) const {
  // The time since the last failure speaks too: it favours the regimes that expected it to be long. One more
  // part stands for a change since then.
  std::array<double, kRegimes + 2> weights;
  std::array<Regime, kRegimes + 2> parts;
  const std::array<Regime, 2> begun = after_change(mean_rate(0));
  const std::size_t count = count_ + begun.size();
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    parts[i] = i < count_ ? regimes_[i] : begun[i - count_];
    weights[i] = std::exp(parts[i].log_weight + survival_log(parts[i].shape, parts[i].node_days, pending_));
    sum += weights[i];
  }
  for (std::size_t i = 0; i < count; ++i)
    use(sum > 0 ? weights[i] / sum : 1 / static_cast<double>(count), parts[i].shape,
        parts[i].node_days + pending_);
}

double FailureRate::per_node_day() const {
  if (expects_none()) return 0;
  double mean = 0;
  for_each_part([&](double weight, double shape, double node_days) { mean += weight * shape / node_days; });
  return mean;
}

double FailureRate::quantile_per_node_day(double share, double more_failures) const {
  if (expects_none()) return 0;
  const auto below = [&](double rate) {
    double sum = 0;
    for_each_part([&](double weight, double shape, double node_days) {
      if (weight > 1e-9) sum += weight * gamma_p(shape + more_failures, rate * node_days);
    });
    return sum;
  };
  double low = 0;
  double high = per_node_day();
  // So little is known that a part of the belief this great lies at no failures at all.
  if (below(high * 1e-9) >= share) return 0;
  while (below(high) < share && high < 1e30) high *= 2;
  for (int i = 0; i < 60 && high - low > 1e-9 * high; ++i) {
    const double middle = (low + high) / 2;
    (below(middle) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

FailureRate::Range FailureRate::ci95_per_node_day() const {
  return {quantile_per_node_day(0.025), quantile_per_node_day(0.975, 1)};
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
