#pragma once
// A fold as an object: what the records of slots 0 to n-1 say, so that a start reads it and what follows
// instead of all of them (docs/format/journal.md). A pure function of the prefix: racing writers write the
// same bytes under the same name. A cache, never the truth: where it is not there or does not check out, the
// records are read.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "journal/history.h"

namespace unbroken {

/// What is written and read at most.
inline constexpr std::uint64_t kFoldBytesMax = std::uint64_t{16} << 20;

struct EncodedFold {
  std::string bytes;
  Summary summary;  ///< what a record says of it
  std::string key;
};
/// Errors: bad_argument (over the cap: such a journal goes on without; or of no record).
Result<EncodedFold> encode_fold(const History& prefix);

/// Are these the bytes that the SUMMARY names? Errors: corrupt.
Result<> check_fold(std::string_view bytes, const Summary& named);
/// The SUMMARY of `named` follows the record `previous`. Errors: corrupt (not what the SUMMARY
/// names, or it contradicts itself), unsupported (another form, or a critical feature of a later version).
Result<History> decode_fold(std::string_view bytes, const FoldRef& named, const Sha256& previous,
                            std::uint64_t fold_every);
/// The text alone, of any slot: for whoever looks at one by itself. Errors: as above.
Result<History> decode_fold_text(std::string_view bytes);

/// "fold/00000000000000000256-0123456789abcdef": the slot and the beginning of the digest.
std::string fold_key(const FoldRef& ref);
/// The slot that a name directly below fold/ stands for; nullopt for any other name.
std::optional<std::uint64_t> slot_of_fold(std::string_view name);

}  // namespace unbroken
