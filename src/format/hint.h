#pragma once
// The hint: how far the journal was known to reach. Advisory: it may be stale, lost or torn, and decides
// nothing, except that a hint beyond the head says that the journal was cut.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/result.h"

namespace unbroken {

inline constexpr std::uint64_t kHintBytesMax = 4096;

struct Hint {
  std::string uuid;
  std::uint64_t slot = 0;               ///< of the newest record that was acknowledged
  Sha256 record;                        ///< its hash
  std::optional<std::uint64_t> closed;  ///< slot of the OPEN whose owner has ended cleanly
  friend bool operator==(const Hint&, const Hint&) = default;
};

/// Errors: bad_argument.
Result<std::string> encode_hint(const Hint& hint);
/// Errors: corrupt, unsupported; a caller takes both for "no hint".
Result<Hint> decode_hint(std::string_view text);

}  // namespace unbroken
