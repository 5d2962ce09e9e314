#include "base/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace unbroken {
namespace {

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 131 + 7);
  return out;
}

// Made by the scalar code of libxxhash 0.8.1: every set of vectors must come to the same.
const std::vector<std::pair<std::size_t, const char*>> kKnown{
    {0, "99aa06d3014798d86001c324468d497f"},    {3, "390cdc5b4a895dd76e3e2670e61106ac"},
    {240, "5293e17bf553903d3f2c53e72293711f"},  {241, "b53840fe3fedf161956cae592c67279e"},
    {1024, "f69630613f24324d70bd377d9574f4bb"}, {5000, "61bedb627e4a5fdfe4007929540f095c"}};

TEST(Xxh128, IsThatOfTheFormatAtEveryLength) {
  for (const auto& [count, hex] : kKnown) EXPECT_EQ(xxh128(some_bytes(count)).hex(), hex) << count;
}

TEST(XxhStream, ComesToTheSameWhateverThePieces) {
  for (const auto& [count, hex] : kKnown)
    for (const std::size_t piece : {1U, 63U, 256U, 1000U, 4096U}) {
      const std::vector<std::byte> all = some_bytes(count);
      XxhStream stream;
      for (std::size_t at = 0; at < count; at += piece)
        stream.update(Bytes(all).subspan(at, std::min(piece, count - at)));
      EXPECT_EQ(stream.digest().hex(), hex) << count << " in pieces of " << piece;
    }
}

}  // namespace
}  // namespace unbroken
