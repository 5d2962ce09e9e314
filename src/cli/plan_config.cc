// Settings from a file, with yaml-cpp: only maps of plain values, and a list of tiers.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "cli/plan_flags.h"

namespace unbroken {

namespace {

Error refuse_file(std::string_view path, std::string why) {
  return Error(Code::bad_argument, fmt::format("--config {}: {}", path, why));
}

std::string key_of(const YAML::Node& node) {
  std::string key = node.Scalar();
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

Result<> check_keys(const YAML::Node& map, std::string_view path) {
  std::set<std::string> seen;
  for (const auto& item : map) {
    if (!item.first.IsScalar()) return refuse_file(path, "a key is not plain text");
    if (!seen.insert(key_of(item.first)).second)
      return refuse_file(path, fmt::format("{}: stands there twice", key_of(item.first)));
  }
  return Done{};
}

bool is_switch(std::string_view key) {
  for (const Flag& flag : plan_flags())
    if (flag.name == key) return flag.value.empty();
  return false;
}

/// {name: disk, stall: 2min} as "disk:stall=2min".
Result<std::string> tier_text(const YAML::Node& tier, std::string_view path) {
  if (tier.IsScalar()) return tier.Scalar();
  if (!tier.IsMap() || !tier["name"] || !tier["name"].IsScalar())
    return refuse_file(path, "tiers: each is a text as after --tier, or a map with a name");
  UNBROKEN_DO(check_keys(tier, path));
  std::string out = tier["name"].Scalar() + ":";
  for (const auto& item : tier) {
    const std::string key = item.first.Scalar();
    if (key == "name") continue;
    if (!item.second.IsScalar())
      return refuse_file(path, fmt::format("tiers: {}: is not a plain value", key));
    if (out.back() != ':') out += ',';
    out += key + "=" + item.second.Scalar();
  }
  return out;
}

Result<Settings> read_map(const YAML::Node& root, std::string_view path, std::string& preset) {
  Settings out;
  if (root.IsNull()) return out;
  if (!root.IsMap()) return refuse_file(path, "is not a map of settings");
  UNBROKEN_DO(check_keys(root, path));
  for (const auto& item : root) {
    const std::string key = key_of(item.first);
    if (key == "tiers") {
      if (!item.second.IsSequence()) return refuse_file(path, "tiers: is not a list");
      for (const auto& tier : item.second) {
        UNBROKEN_TRY(std::string text, tier_text(tier, path));
        out.tiers.push_back(std::move(text));
      }
      continue;
    }
    if (!item.second.IsScalar()) return refuse_file(path, fmt::format("{}: is not a plain value", key));
    if (key == "preset") {
      preset = item.second.Scalar();
    } else if (is_switch(key)) {
      bool is_on = false;
      if (!YAML::convert<bool>::decode(item.second, is_on))
        return refuse_file(path,
                           fmt::format("{}: \"{}\" is neither true nor false", key, item.second.Scalar()));
      if (is_on) out.values[key] = "true";
    } else {
      out.values[key] = item.second.Scalar();
    }
  }
  return out;
}

}  // namespace

Result<Settings> parse_config(std::string_view yaml, std::string_view path, std::string& preset) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(yaml));
    if (documents.size() > 1) return refuse_file(path, "holds more than one document");
    return documents.empty() ? Settings{} : read_map(documents.front(), path, preset);
  } catch (const YAML::Exception& e) {
    return refuse_file(path, e.what());
  }
}

}  // namespace unbroken
