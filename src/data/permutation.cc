#include "data/permutation.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace unbroken {
namespace {

constexpr std::uint64_t kIncrement = 0x9e3779b97f4a7c15;    // G: 2^64 / golden ratio, odd
constexpr std::uint64_t kSeedOffset = 0x243f6a8885a308d3;   // A
constexpr std::uint64_t kEpochOffset = 0x13198a2e03707344;  // B
constexpr int kHalfBitsMin = 4;  // smaller domains have too few round functions to reach every order

constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

KeyedPermutation::KeyedPermutation(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch)
    : count_(count),
      half_bits_(std::max(kHalfBitsMin,
                          (static_cast<int>(std::bit_width(count == 0 ? count : count - 1)) + 1) / 2)) {
  const std::uint64_t key = mix(mix(seed + kSeedOffset) ^ (epoch + kEpochOffset));
  std::uint64_t counter = key;
  for (std::uint64_t& round_key : keys_) {
    counter += kIncrement;
    round_key = mix(counter);
  }
}

std::uint64_t KeyedPermutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (const std::uint64_t round_key : keys_) {
    const std::uint64_t next = left ^ (mix(right + round_key) >> (64 - half_bits_));
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

std::uint64_t KeyedPermutation::at(std::uint64_t position) const {
  UNBROKEN_CHECK(position < count_);
  std::uint64_t value = encrypt(position);
  while (value >= count_) value = encrypt(value);
  return value;
}

void KeyedPermutation::fill(std::uint64_t start, std::span<std::uint64_t> out) const {
  UNBROKEN_CHECK(start <= count_ && out.size() <= count_ - start);
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = at(start + k);
}

}  // namespace unbroken
