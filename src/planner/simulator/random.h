#pragma once
// Seeded chance for the simulator: the same numbers on every machine and compiler.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace unbroken {

/// xoshiro256**, seeded by splitmix64.   Source: Blackman and Vigna, 2018; public domain reference algorithm.
class SeededRandom {
 public:
  explicit SeededRandom(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      std::uint64_t z = seed += 0x9e3779b97f4a7c15u;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t next() {
    const std::uint64_t out = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return out;
  }

  /// In (0, 1).
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  double exponential() { return -std::log(uniform()); }
  /// Mean 0, variance 1 (Box and Muller, one of the two).
  double normal() { return std::sqrt(2 * exponential()) * std::cos(6.283185307179586 * uniform()); }
  /// Gamma(shape, 1), shape >= 1.   Source: Marsaglia and Tsang, 2000.
  double gamma(double shape) {
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = normal(), v = 1 + c * x;
      if (v <= 0) continue;
      const double cube = v * v * v;
      if (std::log(uniform()) < x * x / 2 + d - d * cube + d * std::log(cube)) return d * cube;
    }
  }

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace unbroken
