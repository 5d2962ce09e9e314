#pragma once
// The header of a shard file: safetensors, exactly. 8 bytes little-endian N, N bytes of JSON, then the data:
// row-major, little-endian, packed, without holes. Ours is padded with spaces so that data starts on a page.
// No checksum is inside (docs/format/shard.md); the index and the sums file hold those.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "state/dtype.h"

namespace unbroken {

inline constexpr std::uint64_t kPageBytes = 4096;
/// Of N, as safetensors has it.
inline constexpr std::uint64_t kHeaderBytesMax = 100'000'000;

struct ShardPlan {
  std::string header;                  ///< the first `data_offset` bytes of the file
  std::uint64_t data_offset = 0;       ///< a multiple of kPageBytes
  std::uint64_t file_bytes = 0;        ///< all of it
  std::vector<std::uint64_t> offsets;  ///< of each tensor as given, from the start of the file
  std::vector<std::uint64_t> bytes;    ///< of each tensor as given
  std::vector<std::uint32_t> order;    ///< indices of the tensors in file order
};
/// Where each tensor goes. Larger elements come first (so that each tensor lies at a multiple of its element
/// size), else in the order given.
/// Errors: bad_argument (a name twice or not allowed, over kRankMax axes, sizes that overflow, a header over
/// kHeaderBytesMax).
Result<ShardPlan> plan_shard(std::span<const TensorSpec> tensors);

struct HeaderTensor {
  std::string name;
  DType dtype = DType::u8;  ///< as stored
  Shape shape;
  std::uint64_t offset = 0, bytes = 0;  ///< from the start of the file
};
struct ShardHeader {
  std::vector<HeaderTensor> tensors;  ///< in file order
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;
};
/// N + 8 from the first 8 bytes of a file of `file_bytes`. Errors: corrupt (over a cap, beyond the file).
Result<std::uint64_t> header_size(Bytes first_8, std::uint64_t file_bytes);
/// `head` is the first header_size() bytes. Every rule of safetensors is checked, and a few caps of ours:
/// rank, names (check_name), no member besides dtype, shape and data_offsets. Memory stays within twice the
/// header. Errors: corrupt.
Result<ShardHeader> read_header(Bytes head, std::uint64_t file_bytes);

}  // namespace unbroken
