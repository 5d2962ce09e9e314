#pragma once
// Names of the objects in data/ and metrics/. Every name is built from numbers here; none is
// ever read out of a file and used as a path.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/ids.h"
#include "base/layout.h"

namespace unbroken {

/// "metrics/a0003.jsonl".
std::string metrics_key(std::uint32_t attempt);
/// "data/step-000000001200.a0003.t0/".
std::string save_prefix(const SaveId& save);
/// "<save_prefix>shard-00000.<nonce>.safetensors", and beside it ".json" and ".sums".
std::string shard_key(const SaveId& save, std::uint32_t writer, Nonce nonce);
std::string index_key(const SaveId& save, std::uint32_t writer, Nonce nonce);
std::string sums_key(const SaveId& save, std::uint32_t writer, Nonce nonce);
/// "<save_prefix>receipt-00000".
std::string receipt_key(const SaveId& save, std::uint32_t writer);
/// "<save_prefix>manifest-<first 16 hex digits>.json".
std::string manifest_key(const SaveId& save, const Sha256& content);

/// A name directly below "metrics/"; nothing for any other name.
std::optional<std::uint32_t> attempt_from_metrics_name(std::string_view name);
/// A name directly below "data/".
std::optional<SaveId> save_from_name(std::string_view name);

/// A name directly below a save's folder.
struct DataName {
  enum class Kind : std::uint8_t { shard, index, sums, receipt, manifest };
  Kind kind = Kind::shard;
  std::uint32_t writer = 0;   ///< not of a manifest
  Nonce nonce;                ///< of shard, index, sums
  std::string digest_prefix;  ///< of a manifest: 16 hex digits
  friend bool operator==(const DataName&, const DataName&) = default;
};
std::optional<DataName> data_name_from(std::string_view name);

}  // namespace unbroken
