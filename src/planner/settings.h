#pragma once
// What a person says about a job, as text by flag name: from a preset, from a file, from the command line.
// Later layers win, and a layer that says something in one of several ways (the mean time between
// interruptions, the bytes of the state) takes back the others of the layers below.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace unbroken {

/// A flag of `unbroken plan`, without its dashes.
struct Flag {
  std::string_view name;
  std::string_view value;  ///< as --help shows it: "D", "N"; empty for a switch
  std::string_view help;
};
const std::vector<Flag>& plan_flags();

inline constexpr std::size_t kTiersMax = 64;
/// Flags of the one kind of save that tiers take the place of.
inline constexpr std::string_view kSaidByTiers[] = {"stall",     "persist",          "sync",
                                                    "bandwidth", "writer-bandwidth", "writers"};

struct Settings {
  std::map<std::string, std::string, std::less<>> values;  ///< by flag name; "true" for a switch
  std::vector<std::string> tiers;                          ///< each as after `--tier`
  bool has(std::string_view name) const { return values.find(name) != values.end(); }
};

/// Errors: bad_argument naming the flag (no such flag, two that exclude each other).
Result<> check_layer(const Settings& layer);
/// `top` over `base`.
Settings overlay(Settings base, const Settings& top);

struct Preset {
  std::string_view name;
  std::string_view about;
  std::vector<std::pair<std::string_view, std::string_view>> values;
};
const std::vector<Preset>& presets();
/// Errors: bad_argument, naming those there are.
Result<Settings> preset_settings(std::string_view name);
/// What is said over a preset; over none where `name` is empty. A preset with a state says the rate of its
/// write too, by how long that takes: another size or another rate makes it take another time.
/// Errors: as preset_settings().
Result<Settings> over_preset(std::string_view name, const Settings& said);

}  // namespace unbroken
