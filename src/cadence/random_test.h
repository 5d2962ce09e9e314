#pragma once
// Chance for tests of this module: the same numbers on every compiler.
#include <cmath>
#include <cstdint>

namespace unbroken {

class TestRandom {
 public:
  explicit TestRandom(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  /// In (0, 1).
  double uniform() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (static_cast<double>((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
  }
  double exponential(double mean) { return -mean * std::log(uniform()); }

 private:
  std::uint64_t state_;
};

}  // namespace unbroken
