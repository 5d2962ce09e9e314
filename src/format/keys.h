#pragma once
// Names of the objects of a run. Every name is built from numbers here; none is ever read out of a file and
// used as a path.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/ids.h"

namespace unbroken {

std::string run_key();   ///< "RUN"
std::string hint_key();  ///< "hint"
inline constexpr std::string_view kJournalPrefix = "journal/";
inline constexpr std::string_view kFoldPrefix = "fold/";
inline constexpr std::string_view kDataPrefix = "data/";
inline constexpr std::string_view kMetricsPrefix = "metrics/";

std::string journal_key(std::uint64_t slot);                      ///< "journal/<20 digits>"
std::string fold_key(std::uint64_t slot, const Sha256& content);  ///< "fold/<20 digits>-<16 hex>"
std::string metrics_key(std::uint32_t attempt);                   ///< "metrics/a0003.jsonl"
std::string save_prefix(const SaveId& save);                      ///< "data/step-000000001200.a0003.t0/"
std::string shard_key(const SaveId&, std::uint32_t writer,
                      Nonce nonce);  ///< "...shard-00000.<nonce>.safetensors"
std::string index_key(const SaveId&, std::uint32_t writer, Nonce nonce);  ///< "...shard-00000.<nonce>.json"
std::string sums_key(const SaveId&, std::uint32_t writer, Nonce nonce);   ///< "...shard-00000.<nonce>.sums"
std::string receipt_key(const SaveId&, std::uint32_t writer);             ///< "...receipt-00000"
std::string manifest_key(const SaveId&, const Sha256& content);           ///< "...manifest-<16 hex>.json"

/// A name directly below "journal/"; nothing for any other name.
std::optional<std::uint64_t> slot_from_name(std::string_view name);
/// A name directly below "metrics/".
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
