#pragma once
// The hint: an advisory, overwritable note of where the journal's head was. It is written only after a record
// was read back by name after the sync, so a hint beyond the head that is found means that the journal lost
// records.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/layout.h"
#include "base/result.h"

namespace unbroken {

struct Hint {
  std::string run;  ///< uuid
  std::uint64_t slot = 0;
  Sha256 record;  ///< digest of the record in that slot
  /// Slot of the OPEN whose owner ended in an orderly way: a start that finds it does not look for that
  /// owner.
  std::optional<std::uint64_t> closed;
};

/// Sealed canonical JSON.
std::string encode_hint(const Hint& hint);
/// corrupt: ignore it, it is advisory.
Result<Hint> decode_hint(std::string_view bytes);

inline constexpr std::uint64_t kHintBytesRead = 4096;

}  // namespace unbroken
