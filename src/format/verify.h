#pragma once
// What is wrong with the objects of one writer, from the evidence alone: receipt -> index and sums -> chunks.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
  std::string head = {};       ///< its first `index.data_offset` bytes, where they were kept
};
/// Only the shard, chunk by chunk: names the tensors that a damaged chunk touches.
std::vector<Damage> verify_chunks(const Index& index, const std::vector<Xxh128>& expected,
                                  const ShardEvidence& shard);

/// Judges the objects of one writer as they come in, in the order of the methods; each is parsed once. A look
/// that ended as not_found is *missing*, any other error is what is wrong with the object. An object that is
/// left out is not judged.
class WriterCheck {
 public:
  using Look = Result<std::string>;
  /// `expected` is the receipt that the manifest holds.
  explicit WriterCheck(Receipt expected) : expected_(std::move(expected)) {}
  void on_receipt(const Look& look);
  /// Errors: unsupported.
  Result<> on_index(const Look& look);
  void on_sums(const Look& look);
  void on_shard(const Result<ShardEvidence>& look);

  const Receipt& expected() const { return expected_; }
  std::string receipt_name() const;
  std::string index_name() const;
  std::string sums_name() const;
  std::string shard_name() const;
  /// Most bytes of the sums file. It is as long as the receipt says, or damaged.
  std::uint64_t sums_bytes_max() const;
  /// Both where the shard can be judged by its content, not by its length alone.
  std::optional<Index> index;
  std::optional<std::vector<Xxh128>> chunks;
  std::vector<Damage> damage;

 private:
  bool is_there(const std::string& object, const Result<>& look);
  Receipt expected_;
};

}  // namespace unbroken
