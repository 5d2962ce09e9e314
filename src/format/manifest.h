#pragma once
// The manifest of a save: every receipt, and what a person wants to know of it. Named by its content; the
// COMMIT record holds its SHA-256 and length, so it vouches for every byte of the save.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "format/receipt.h"

namespace unbroken {

inline constexpr std::uint64_t kManifestBytesMax = std::uint64_t{64} << 20;
inline constexpr std::size_t kManifestTextsMax = 256;     ///< of provenance, of metrics
inline constexpr std::size_t kManifestKeyBytesMax = 256;  ///< of either

struct Manifest {
  SaveId save;
  std::uint32_t world = 1;  ///< ranks of the attempt
  OpenRef open;
  std::optional<SaveId> resume;
  std::vector<Receipt> receipts;                  ///< one a writer, in order
  std::map<std::string, std::string> provenance;  ///< host, versions, command line, ...
  Json details = Json::object();          ///< free, of at most 64 KiB and 16 levels, without fractions
  std::map<std::string, double> metrics;  ///< of the step; any double
  std::string health = "ok";              ///< or "non-finite"
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

struct SealedManifest {
  std::string text;
  Sha256 sha256;  ///< of the canonical text: its name, and what COMMIT holds
};
/// Errors: bad_argument (a receipt of another save or attempt or out of order, over a cap).
Result<SealedManifest> encode_manifest(const Manifest& manifest);
/// Errors: corrupt (also where the text is not what `expected` names), unsupported.
Result<Manifest> decode_manifest(std::string_view text, const Sha256& expected);

}  // namespace unbroken
