#pragma once
// The order of a shuffled epoch: a permutation of [0, n) keyed by (seed, epoch), with random access and
// without a table. It is part of format 1 (a resumed epoch must go on in the order in which it began), so it
// never changes: permutation_test.cc holds golden values.
//
// 1. h = max(4, ceil(bit_width(n - 1) / 2)): the domain is [0, 2^2h), at most 4 n but for small n.
// 2. key = mix(mix(seed + A) ^ (epoch + B)); the key of round r = 0..7 is mix(key + (r + 1) * G).
// 3. A round takes the halves (left, right) of h bits to (right, left ^ top h bits of mix(right + key of r)).
// 4. Cycle walking: i is encrypted until the result is below n. That ends, as the domain is permuted.
//
// mix is the finaliser of SplitMix64 (Stafford's variant 13) and G its increment; A and B are the first words
// of the fraction of pi. Every sum is modulo 2^64. This is a shuffle, not a cipher.
#include <array>
#include <cstdint>
#include <span>

namespace unbroken {

class KeyedPermutation {
 public:
  /// Of [0, count); any seed and epoch. count = 0 is the empty permutation.
  KeyedPermutation(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch);

  std::uint64_t count() const { return count_; }
  /// The index at `position` < count(). About 30 ns.   Threads: any.
  std::uint64_t at(std::uint64_t position) const;
  /// out[k] = at(start + k); start + out.size() <= count().
  void fill(std::uint64_t start, std::span<std::uint64_t> out) const;

  static constexpr int kRounds = 8;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t count_;
  int half_bits_;
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace unbroken
