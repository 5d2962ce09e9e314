#pragma once
// JSON read with caps and written in one canonical form.
//
// Canonical: keys sorted by byte, no white space, UTF-8 as it is, the shortest number that reads back the
// same. A *sealed* text is one canonical line and one line "sha256:<64 hex>" over it; a text stored *twice*
// holds that pair two times, so that one flipped bit stops nothing.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/ids.h"
#include "base/result.h"

namespace unbroken {

using Json = nlohmann::json;

/// What a reader accepts before it gives up; nothing is allocated by a size that a file states.
struct JsonLimits {
  std::size_t bytes = std::size_t{64} << 20;  ///< of the whole text
  std::size_t depth = 80;                     ///< nesting
  std::size_t nodes = std::size_t{8} << 20;   ///< values of any kind
};

/// Errors: corrupt (not JSON, a key twice, over a cap, not UTF-8).
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});
/// The canonical form. bad_argument where a string is not UTF-8.
Result<std::string> canonical_json(const Json& value);

/// A double: a number, or the text NaN, Infinity or -Infinity, for which JSON has no numbers.
Json json_number(double value);
/// Errors: corrupt.
Result<double> number_from_json(const Json& value);

/// Canonical text, newline, "sha256:" and the hex of the text's SHA-256, newline.
Result<std::string> seal(const Json& value);
/// Closes a text that is canonical already.
void add_seal(std::string& canonical);
struct Sealed {
  Json value;
  Sha256 digest;             ///< of the canonical text
  bool is_repaired = false;  ///< only the second copy was whole
};
/// Errors: corrupt (bad seal, text not canonical, trailing bytes, over a cap).
Result<Sealed> open_sealed(std::string_view text, const JsonLimits& limits = {});
/// The same, stored twice.
Result<std::string> seal_twice(const Json& value);
Result<Sealed> open_sealed_twice(std::string_view text, const JsonLimits& limits = {});

/// Reads the fields of one object; the first thing that is wrong is kept and returned by end().
///     Fields f(json, "receipt");
///     receipt.step = f.u64("step");
///     UNBROKEN_DO(f.end());
class Fields {
 public:
  Fields(const Json& object, std::string what);
  std::uint64_t u64(const char* key, std::uint64_t max = UINT64_MAX);
  std::uint32_t u32(const char* key) { return static_cast<std::uint32_t>(u64(key, UINT32_MAX)); }
  bool boolean(const char* key);
  std::string text(const char* key, std::size_t bytes_max = 4096);
  Sha256 sha256(const char* key);
  Xxh128 xxh128(const char* key);
  Nonce nonce(const char* key);
  /// The member itself; null where it is missing (an error unless `is_optional`).
  const Json& any(const char* key, bool is_optional = false);
  const Json& object(const char* key);
  const Json& array(const char* key, std::size_t count_max);
  bool has(const char* key) const;
  void fail(std::string why);
  Result<> end() const;

 private:
  const Json& object_;
  std::string what_;
  std::optional<Error> error_;
};

/// {"step", "attempt", "try"}.
Json to_json(const SaveId& save);
Result<SaveId> save_id_from_json(const Json& value);

}  // namespace unbroken
