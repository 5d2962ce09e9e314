#pragma once
// Chance from a seed. Each component draws from a stream of its own, named, so that one more draw here does
// not shift what happens there.
#include <cstdint>
#include <string_view>

#include "base/digest.h"
#include "world/clock.h"

namespace unbroken {

/// One step of a 64-bit mixing function (splitmix64's finaliser).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class SimRandom final : public Random {
 public:
  SimRandom(std::uint64_t seed, std::string_view stream)
      : state_(mix64(seed) ^ xxh128(as_bytes(stream)).low) {}
  std::uint64_t next() override { return mix64(state_++); }
  /// 0 <= x < bound; 0 where bound is 0.
  std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }
  /// True `ppm` times in a million; draws nothing where it never or always is.
  bool happens(std::uint32_t ppm) { return ppm > 0 && (ppm >= 1'000'000 || below(1'000'000) < ppm); }

 private:
  std::uint64_t state_;
};

}  // namespace unbroken
