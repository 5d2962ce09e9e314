#pragma once
// The sums file: 16 bytes, the canonical XXH3-128, for every chunk of the whole shard file; the last chunk
// may be shorter. The receipt holds its length and digest.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/result.h"

namespace unbroken {

/// Chunks of a file. `chunk_bytes` > 0.
constexpr std::uint64_t chunk_count(std::uint64_t file_bytes, std::uint64_t chunk_bytes) {
  return file_bytes / chunk_bytes + (file_bytes % chunk_bytes != 0 ? 1 : 0);
}

/// Of a sums file that is read: sums of 16 TiB in chunks of 1 MiB.
inline constexpr std::uint64_t kSumsBytesMax = std::uint64_t{256} << 20;

std::string encode_sums(std::span<const Xxh128> chunks);
/// Errors: corrupt (not exactly `count` sums).
Result<std::vector<Xxh128>> decode_sums(std::string_view bytes, std::uint64_t count);

}  // namespace unbroken
