#pragma once
// The index of one shard: which tensor is where, as what, with which digest, and the state tree. Sealed
// canonical JSON beside the shard; the receipt holds its length and digest.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/ids.h"
#include "base/json.h"
#include "state/tree.h"

namespace unbroken {

inline constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kIndexBytesMax = std::uint64_t{64} << 20;

/// The part of a sharded tensor that a shard holds: begin <= x < end on every axis.
struct Box {
  Shape begin, end;
  friend bool operator==(const Box&, const Box&) = default;
};

struct IndexedTensor {
  std::string name;
  DType dtype = DType::u8;              ///< logical
  Shape shape;                          ///< of the whole tensor
  std::uint64_t offset = 0, bytes = 0;  ///< in the shard file, from its start
  Xxh128 digest;                        ///< over the `bytes` bytes
  std::optional<Box> box;               ///< none: the shard holds the whole tensor
  friend bool operator==(const IndexedTensor&, const IndexedTensor&) = default;
};

/// `name` is another name of the tensor `of` (tied tensors are written once).
struct Alias {
  std::string name, of;
  friend bool operator==(const Alias&, const Alias&) = default;
};

struct Index {
  SaveId save;
  Nonce nonce;               ///< of the writer, as in the file names
  std::uint32_t writer = 0;  ///< which of `writers`
  std::uint32_t writers = 1;
  std::uint64_t chunk_bytes = kChunkBytes;  ///< of the sums file
  std::uint64_t data_offset = 0;            ///< where tensors begin in the shard file
  std::uint64_t file_bytes = 0;             ///< of the shard file
  std::vector<IndexedTensor> tensors;       ///< in file order, tiling [data_offset, file_bytes)
  std::vector<Alias> aliases;               ///< sorted by name
  Node tree;                                ///< None where another writer's index holds it
  friend bool operator==(const Index&, const Index&) = default;

  /// The tensor of this name or alias; null where there is none. Linear: build a map for many.
  const IndexedTensor* find(std::string_view name) const;
};

/// Sealed text. Errors: bad_argument (it would not decode, or exceeds kIndexBytesMax).
Result<std::string> encode_index(const Index& index);
/// Errors: corrupt; unsupported (written by a newer version, or an unknown critical feature, which it names).
Result<Index> decode_index(std::string_view text);

}  // namespace unbroken
