#pragma once
// Format version and feature flags: what a reader must know before it may trust what it understands.
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace unbroken {

inline constexpr std::uint32_t kFormat = 1;

/// A reader that does not know a critical one must refuse; an optional one may be ignored.
struct Features {
  std::vector<std::string> critical, optional;
  friend bool operator==(const Features&, const Features&) = default;
};

/// Looks at "format" of a decoded object, before any other member.
/// Errors: unsupported ("written by a newer version"), corrupt.
Result<> check_format(const Json& object, std::string_view what);
/// The same, and "critical". Errors: also unsupported, naming the flag.
Result<> check_features(const Json& object, std::string_view what);
/// The names in a JSON list. Errors: corrupt.
Result<std::vector<std::string>> flags_from(const Json& list, std::string_view what);
/// Lower-case letters, digits and '-', 1 to 64 of them.
bool is_flag(std::string_view text);
/// Adds "format" and "critical".
void put_features(Json& object, const Features& features = {});

}  // namespace unbroken
