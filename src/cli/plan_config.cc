// Settings from a file, with yaml-cpp: only maps of plain values, and a list of tiers.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "cli/plan_flags.h"

namespace unbroken {

namespace {

Error refuse(std::string_view path, std::string why) {
  return Error(Code::bad_argument, fmt::format("--config {}: {}", path, why));
}

/// {name: disk, stall: 2min} as "disk:stall=2min".
Result<std::string> tier_text(const YAML::Node& tier, std::string_view path) {
  if (tier.IsScalar()) return tier.Scalar();
  if (!tier.IsMap() || !tier["name"] || !tier["name"].IsScalar())
    return refuse(path, "tiers: each is a text as after --tier, or a map with a name");
  std::string out = tier["name"].Scalar() + ":";
  for (const auto& item : tier) {
    const std::string key = item.first.Scalar();
    if (key == "name") continue;
    if (!item.second.IsScalar()) return refuse(path, fmt::format("tiers: {}: is not a plain value", key));
    if (out.back() != ':') out += ',';
    out += key + "=" + item.second.Scalar();
  }
  return out;
}

Result<Settings> read_map(const YAML::Node& root, std::string_view path, std::string& preset) {
  Settings out;
  if (root.IsNull()) return out;
  if (!root.IsMap()) return refuse(path, "is not a map of settings");
  for (const auto& item : root) {
    if (!item.first.IsScalar()) return refuse(path, "a key is not plain text");
    std::string key = item.first.Scalar();
    std::replace(key.begin(), key.end(), '_', '-');
    if (key == "tiers") {
      if (!item.second.IsSequence()) return refuse(path, "tiers: is not a list");
      for (const auto& tier : item.second) {
        UNBROKEN_TRY(std::string text, tier_text(tier, path));
        out.tiers.push_back(std::move(text));
      }
      continue;
    }
    if (!item.second.IsScalar()) return refuse(path, fmt::format("{}: is not a plain value", key));
    if (key == "preset") {
      preset = item.second.Scalar();
    } else if (!out.values.emplace(key, item.second.Scalar()).second) {
      return refuse(path, fmt::format("{}: stands there twice", key));
    }
  }
  return out;
}

}  // namespace

Result<Settings> parse_config(std::string_view yaml, std::string_view path, std::string& preset) {
  try {
    return read_map(YAML::Load(std::string(yaml)), path, preset);
  } catch (const YAML::Exception& e) {
    return refuse(path, e.what());
  }
}

}  // namespace unbroken
