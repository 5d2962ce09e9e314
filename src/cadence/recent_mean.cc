#include "cadence/recent_mean.h"

#include <algorithm>

namespace unbroken {

void RecentMean::add(double value) {
  values_[count_ % kWindow] = value;
  ++count_;
  const std::size_t n = std::min(count_, kWindow);
  std::array<double, kWindow> sorted = values_;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(n));
  const double cap = 3 * sorted[(n - 1) / 2];
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::min(sorted[i], cap);
  mean_ = sum / static_cast<double>(n);
  max_ = sorted[n - 1];
}

}  // namespace unbroken
