#pragma once
// A writer's receipt: its three objects are whole and durable. Created once under a name without a nonce, so
// that one attempt has one receipt per writer; it says which nonce counts. At most 512 bytes, so that it is
// one sector: whole or torn, never half new.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/ids.h"
#include "base/result.h"

namespace unbroken {

inline constexpr std::uint64_t kReceiptBytesMax = 512;

/// An OPEN record: an attempt is known by its place and hash, never by its number alone.
struct OpenRef {
  std::uint64_t slot = 0;
  Sha256 sha256;  ///< of the record's canonical text
  friend bool operator==(const OpenRef&, const OpenRef&) = default;
};
/// An object by content.
struct ContentRef {
  std::uint64_t bytes = 0;
  Xxh128 digest;
  friend bool operator==(const ContentRef&, const ContentRef&) = default;
};
ContentRef content_ref(std::string_view bytes);

struct Receipt {
  SaveId save;
  std::uint32_t writer = 0;
  Nonce nonce;                   ///< in the names of the three objects
  Nonce life;                    ///< of the process that wrote them
  OpenRef open;                  ///< the attempt
  std::optional<SaveId> resume;  ///< what that attempt resumed from
  std::uint64_t shard_bytes = 0;
  ContentRef index, sums;
  friend bool operator==(const Receipt&, const Receipt&) = default;
};

/// Errors: bad_argument (over kReceiptBytesMax, which takes steps above 10^12 or shards above 10^15 bytes).
Result<std::string> encode_receipt(const Receipt& receipt);
/// Errors: corrupt, unsupported.
Result<Receipt> decode_receipt(std::string_view text);

}  // namespace unbroken
