#pragma once
// The two hashes of format 1: XXH3-128 against damage (fast, not a signature), SHA-256 where a chain or a
// name has to resist collision. Source: docs/format/index.md; XXH3 as libxxhash >= 0.8 defines it, canonical
// (big-endian) byte order in text.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace unbroken {

struct Xxh128 {
  std::uint64_t high = 0, low = 0;
  friend auto operator<=>(const Xxh128&, const Xxh128&) = default;
  /// 32 lower-case hex digits, most significant first.
  std::string hex() const;
  static Result<Xxh128> from_hex(std::string_view text);
  static constexpr std::size_t kBytes = 16;
  /// The canonical 16 bytes, as they stand in a sums file.
  void store(std::byte* out) const;
  static Xxh128 load(const std::byte* in);
};

Xxh128 xxh128(Bytes bytes);

/// XXH3-128 over a stream of pieces.
class XxhStream {
 public:
  XxhStream();
  ~XxhStream();
  XxhStream(XxhStream&&) noexcept;
  XxhStream& operator=(XxhStream&&) noexcept;
  void update(Bytes bytes);
  Xxh128 digest() const;
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Sha256 {
  std::array<std::byte, 32> bytes{};
  friend auto operator<=>(const Sha256&, const Sha256&) = default;
  /// 64 lower-case hex digits.
  std::string hex() const;
  static Result<Sha256> from_hex(std::string_view text);
};

Sha256 sha256(Bytes bytes);

std::string to_hex(Bytes bytes);
/// bad_argument unless `text` is an even number of lower-case hex digits.
Result<std::string> from_hex(std::string_view text);

}  // namespace unbroken
