#include "format/features.h"

#include <fmt/format.h>

#include "base/digest.h"
#include "base/newer.h"

namespace unbroken {

namespace {

constexpr std::size_t kFlagsMax = 64;

}  // namespace

Result<> check_format(const Json& object, std::string_view what) {
  const std::string name(what);
  Fields f(object, name);
  const std::uint64_t format = f.u64("format");
  UNBROKEN_DO(f.end());
  if (format == 0) return Error(Code::corrupt, name + ": format 0");
  if (format > kFormat)
    return written_by_newer(fmt::format(
        "{} was written by a newer version (format {}; this one reads up to {})", name, format, kFormat));
  return Done{};
}

Result<> check_features(const Json& object, std::string_view what) {
  UNBROKEN_DO(check_format(object, what));
  const std::string name(what);
  Fields f(object, name);
  UNBROKEN_TRY(const auto critical, flags_from(f.array("critical", kFlagsMax), name));
  UNBROKEN_DO(f.end());
  if (!critical.empty())
    return written_by_newer(
        fmt::format("{} needs the feature \"{}\", which this version does not know", name, critical.front()));
  return Done{};
}

Result<std::vector<std::string>> flags_from(const Json& list, std::string_view what) {
  std::vector<std::string> flags;
  for (const Json& flag : list) {
    if (!flag.is_string() || !is_flag(flag.get_ref<const std::string&>()))
      return Error(Code::corrupt, fmt::format("{}: a feature's name is not one", what));
    flags.push_back(flag.get<std::string>());
  }
  return flags;
}

bool is_flag(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

void put_features(Json& object, const Features& features) {
  object["format"] = kFormat;
  object["critical"] = features.critical;
}

}  // namespace unbroken
