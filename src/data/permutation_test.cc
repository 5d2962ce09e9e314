#include "data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/check.h"

namespace unbroken {
namespace {

std::vector<std::uint64_t> all_of(const KeyedPermutation& permutation) {
  std::vector<std::uint64_t> out(permutation.count());
  permutation.fill(0, out);
  return out;
}

TEST(KeyedPermutation, IsABijectionForEverySmallCount) {
  for (std::uint64_t count = 0; count <= 1100; ++count) {
    std::vector<std::uint64_t> values = all_of(KeyedPermutation(count, 7, count % 5));
    std::sort(values.begin(), values.end());
    for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], i) << "count " << count;
  }
}

TEST(KeyedPermutation, IsABijectionAtTheEdgesOfItsDomain) {
  for (const std::uint64_t count : {65535U, 65536U, 65537U, 262144U, 262145U}) {
    std::vector<bool> seen(count);
    const KeyedPermutation permutation(count, 3, 1);
    for (std::uint64_t i = 0; i < count; ++i) seen[permutation.at(i)] = true;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<std::ptrdiff_t>(count));
  }
}

TEST(KeyedPermutation, AnswersAnywhereInTheLargestCounts) {
  for (const std::uint64_t count : {UINT64_MAX, (std::uint64_t{1} << 63) + 1, std::uint64_t{1} << 62}) {
    const KeyedPermutation permutation(count, 1, 2);
    std::set<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      values.insert(permutation.at(i));
      values.insert(permutation.at(count - 1 - i));
    }
    EXPECT_EQ(values.size(), 2000U);
    EXPECT_LT(*values.rbegin(), count);
  }
}

TEST(KeyedPermutation, FillAgreesWithAt) {
  const KeyedPermutation permutation(1000, 5, 6);
  std::vector<std::uint64_t> out(100);
  permutation.fill(900, out);
  for (std::uint64_t k = 0; k < out.size(); ++k) EXPECT_EQ(out[k], permutation.at(900 + k));
}

TEST(KeyedPermutation, RefusesAPositionBehindTheEnd) {
  std::vector<std::uint64_t> out(2);
  EXPECT_ANY_THROW((void)KeyedPermutation(3, 0, 0).at(3));
  EXPECT_ANY_THROW(KeyedPermutation(3, 0, 0).fill(2, out));
}

// A value of the format: a change here breaks the order of every run that is under way.
TEST(KeyedPermutation, KeepsItsGoldenValues) {
  EXPECT_EQ(all_of(KeyedPermutation(10, 0, 0)), (std::vector<std::uint64_t>{2, 9, 5, 6, 7, 4, 1, 3, 0, 8}));
  EXPECT_EQ(all_of(KeyedPermutation(10, 0, 1)), (std::vector<std::uint64_t>{0, 3, 5, 4, 8, 2, 6, 7, 1, 9}));
  EXPECT_EQ(all_of(KeyedPermutation(10, 1, 0)), (std::vector<std::uint64_t>{8, 2, 1, 5, 7, 3, 9, 0, 4, 6}));
  const KeyedPermutation million(1000000, 42, 3);
  EXPECT_EQ(million.at(0), 69966U);
  EXPECT_EQ(million.at(999999), 306749U);
  const KeyedPermutation largest(UINT64_MAX, UINT64_MAX, UINT64_MAX);
  EXPECT_EQ(largest.at(0), 17648545468294430440U);
  EXPECT_EQ(largest.at(UINT64_MAX - 1), 11277565809945772540U);
}

// Pearson's statistic over `observed` equally likely cells.
double chi_square(const std::vector<double>& observed) {
  const double expected =
      std::accumulate(observed.begin(), observed.end(), 0.0) / static_cast<double>(observed.size());
  double sum = 0;
  for (const double count : observed) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// All 24 orders of four items come up alike over the epochs; 99.99 % point of chi-square(23): 56.
TEST(KeyedPermutation, ReachesEverySmallOrderAlike) {
  std::map<std::vector<std::uint64_t>, double> counts;
  for (std::uint64_t epoch = 0; epoch < 24000; ++epoch) ++counts[all_of(KeyedPermutation(4, 1, epoch))];
  ASSERT_EQ(counts.size(), 24U);
  std::vector<double> observed;
  for (const auto& [order, count] : counts) observed.push_back(count);
  EXPECT_LT(chi_square(observed), 56);
}

// Where a position lands, over epochs and over seeds; 99.99 % point of chi-square(99): 160.
TEST(KeyedPermutation, SpreadsEachPositionOverAllIndices) {
  for (const std::uint64_t position : {0U, 1U, 50U, 99U}) {
    std::vector<double> by_epoch(100), by_seed(100);
    for (std::uint64_t key = 0; key < 20000; ++key) {
      ++by_epoch[KeyedPermutation(100, 9, key).at(position)];
      ++by_seed[KeyedPermutation(100, key, 9).at(position)];
    }
    EXPECT_LT(chi_square(by_epoch), 160) << position;
    EXPECT_LT(chi_square(by_seed), 160) << position;
  }
}

// Neighbours are not kept together: the distance of the images of i and i + 1 is spread over the ring.
TEST(KeyedPermutation, SeparatesNeighbours) {
  constexpr std::uint64_t kCount = 100000;
  const KeyedPermutation permutation(kCount, 11, 0);
  std::vector<double> observed(100);
  for (std::uint64_t i = 0; i + 1 < kCount; ++i) {
    const std::uint64_t distance = (permutation.at(i + 1) + kCount - permutation.at(i)) % kCount;
    ++observed[distance * 100 / kCount];
  }
  EXPECT_LT(chi_square(observed), 160);
}

TEST(KeyedPermutation, HasAboutOneFixedPointAnEpoch) {
  double fixed = 0;
  for (std::uint64_t epoch = 0; epoch < 2000; ++epoch) {
    const std::vector<std::uint64_t> values = all_of(KeyedPermutation(50, 4, epoch));
    for (std::uint64_t i = 0; i < values.size(); ++i) fixed += values[i] == i ? 1 : 0;
  }
  EXPECT_NEAR(fixed / 2000, 1.0, 0.12);
}

}  // namespace
}  // namespace unbroken
