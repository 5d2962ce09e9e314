#pragma once
// What is wrong with the objects of one writer, from the evidence alone: receipt -> index and sums -> chunks.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/index.h"
#include "format/receipt.h"

namespace unbroken {

/// One finding; `object` is the key relative to the run.
struct Damage {
  std::string object;
  std::uint64_t offset = 0;
  std::string what;  ///< "missing" where the object is not there
  friend bool operator==(const Damage&, const Damage&) = default;
};

/// The index that `receipt` names. Errors: corrupt (length, digest, content, or of another save or writer),
/// unsupported.
Result<Index> open_index(const Receipt& receipt, std::string_view text);
/// The sums that `receipt` names. Errors: corrupt.
Result<std::vector<Xxh128>> open_sums(const Receipt& receipt, const Index& index, std::string_view bytes);
/// The header says of every tensor what the index says. Errors: corrupt.
Result<> check_header(const Index& index, Bytes head);

/// What was read of a shard.
struct ShardEvidence {
  std::uint64_t bytes = 0;
  std::vector<Xxh128> chunks;  ///< of `index.chunk_bytes` each
};
/// What was read of one writer; empty where the object is not there.
struct Evidence {
  std::optional<std::string_view> receipt, index, sums;
  std::optional<ShardEvidence> shard;
};
/// Compares with the receipt that the manifest holds. Empty: nothing is wrong. Errors: unsupported.
Result<std::vector<Damage>> verify_writer(const Receipt& expected, const Evidence& evidence);
/// Only the shard, chunk by chunk: names the tensors that a damaged chunk touches.
std::vector<Damage> verify_chunks(const Index& index, const std::vector<Xxh128>& expected,
                                  const ShardEvidence& shard);

}  // namespace unbroken
