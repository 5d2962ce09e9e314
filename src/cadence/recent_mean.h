#pragma once
// A mean that follows: of the last few values, of which no outlier counts more than three medians. Three
// values after a step change it is more than half-way there.
#include <array>
#include <cstddef>

namespace unbroken {

/// Units: those of the values, which are >= 0.   Threads: the caller's.
class RecentMean {
 public:
  void add(double value);
  /// 0 before the first value.
  double value() const { return mean_; }
  /// The greatest of the values kept, outliers included: for promises.
  double max() const { return max_; }
  std::size_t count() const { return count_; }

 private:
  static constexpr std::size_t kWindow = 5;
  std::array<double, kWindow> values_{};
  std::size_t count_ = 0;
  double mean_ = 0;
  double max_ = 0;
};

}  // namespace unbroken
