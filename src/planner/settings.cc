#include "planner/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"

namespace unbroken {

const std::vector<Flag>& plan_flags() {
  static const std::vector<Flag> kFlags{
      {"gpus", "N", "accelerators of the job"},
      {"gpus-per-node", "N", "accelerators of one node (8)"},
      {"mtti", "D", "mean time to interruption of the whole job"},
      {"node-mtbf", "D", "mean time between failures of one node"},
      {"failures-per-1000-node-days", "X", "failures of 1,000 nodes in one day (3.8)"},
      {"stall", "D", "time for which one save blocks the loop"},
      {"persist", "D", "time from the snapshot until it is durable"},
      {"recovery", "D", "from a failure to the first new step"},
      {"detection", "D", "part of the recovery: until the failure is noticed"},
      {"replacement", "D", "part of the recovery: until the nodes are there again"},
      {"load", "D", "part of the recovery: until the checkpoint is loaded"},
      {"slowdown", "X", "fraction of the speed lost while a save persists"},
      {"in-flight", "K", "saves that may persist at once (1)"},
      {"state", "BYTES", "size of one checkpoint"},
      {"params", "N", "parameters of the model, as 405e9 or 405B"},
      {"bytes-per-param", "B", "bytes of state for each parameter"},
      {"writers", "N", "processes that write one checkpoint"},
      {"bandwidth", "RATE", "of the storage, all writers together"},
      {"writer-bandwidth", "RATE", "of one writer"},
      {"sync", "", "the write blocks the loop"},
      {"notice-share", "G", "share of the interruptions that come with a notice"},
      {"notice", "D", "length of the notice"},
      {"step", "D", "one training step: what a notice has to let finish"},
      {"commit", "D", "from the last byte to the commit"},
      {"rpo", "D", "never lose more than this"},
      {"interval", "D", "evaluate this interval of work instead of the optimum"},
      {"days", "N", "length of the job (30)"},
      {"gpu-hour-usd", "X", "price of one accelerator for an hour"},
      {"gb-month-usd", "X", "price of 10^9 bytes of storage for a month"},
      {"keep-last", "N", "checkpoints that are kept (3)"}};
  return kFlags;
}

namespace {

/// Ways to say one thing. A layer uses one of them; a higher layer's takes back all of the lower one's.
const std::vector<std::vector<std::vector<std::string_view>>> kWays{
    {{"mtti"}, {"node-mtbf"}, {"failures-per-1000-node-days"}},
    {{"state"}, {"params", "bytes-per-param"}},
    {{"recovery"}, {"detection", "replacement", "load"}}};

std::string_view first_present(const Settings& layer, const std::vector<std::string_view>& names) {
  for (const std::string_view name : names)
    if (layer.has(name)) return name;
  return {};
}

void erase(Settings& settings, std::string_view name) {
  if (const auto it = settings.values.find(name); it != settings.values.end()) settings.values.erase(it);
}

}  // namespace

Result<> check_layer(const Settings& layer) {
  for (const auto& [name, value] : layer.values) {
    const auto& flags = plan_flags();
    const bool is_known = std::any_of(flags.begin(), flags.end(),
                                      [&, n = std::string_view(name)](const Flag& f) { return f.name == n; });
    if (!is_known) return Error(Code::bad_argument, fmt::format("--{}: there is no such setting", name));
  }
  for (const auto& ways : kWays) {
    std::string_view used;
    for (const auto& way : ways) {
      const std::string_view name = first_present(layer, way);
      if (name.empty()) continue;
      if (!used.empty())
        return Error(Code::bad_argument,
                     fmt::format("--{} and --{} say the same thing: give one", used, name));
      used = name;
    }
  }
  if (layer.has("sync") && layer.has("stall") && (layer.has("bandwidth") || layer.has("writer-bandwidth")))
    return Error(Code::bad_argument, "--stall and --sync both say how long a save blocks: give one");
  return Done{};
}

Settings overlay(Settings base, const Settings& top) {
  for (const auto& ways : kWays) {
    for (const auto& way : ways) {
      if (first_present(top, way).empty()) continue;
      for (const auto& other : ways)
        if (other != way)
          for (const std::string_view name : other) erase(base, name);
    }
  }
  // A bandwidth brings its own write time.
  const bool has_rate = top.has("bandwidth") || top.has("writer-bandwidth");
  if (top.has("sync") || (has_rate && base.has("sync"))) erase(base, "stall");
  if (top.has("stall")) erase(base, "sync");
  if (has_rate || top.has("sync")) erase(base, "persist");
  for (const auto& [name, value] : top.values) base.values[name] = value;
  if (top.tiers.empty()) return base;
  // Tiers take the place of the one kind of save; a recovery stays for those that say none.
  for (const std::string_view name : kSaidByTiers)
    if (!top.has(name)) erase(base, name);
  const bool is_recovery_said = std::all_of(top.tiers.begin(), top.tiers.end(), [](const std::string& tier) {
    return tier.find("recovery=") != std::string::npos;
  });
  for (const char* name : {"recovery", "detection", "replacement", "load"})
    if (is_recovery_said && !top.has(name)) erase(base, name);
  base.tiers = top.tiers;
  return base;
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> kPresets{
      {"textbook-12h",
       "a write of 2 minutes, one interruption in 12 hours",
       {{"stall", "2min"}, {"mtti", "12h"}}},
      {"nodes-10y",
       "10,000 accelerators on nodes that last ten years",
       {{"gpus", "10000"}, {"node-mtbf", "10y"}, {"stall", "2min"}, {"recovery", "10min"}}},
      {"h100-100k-sync",
       "100,000 H100 on ten-year nodes, 500 GB written in 10 minutes while they wait",
       {{"gpus", "100000"},
        {"node-mtbf", "10y"},
        {"state", "500GB"},
        {"stall", "10min"},
        {"recovery", "10min"}}},
      {"h100-100k-async",
       "the same at the failure rate of RSC-1, written behind the training",
       {{"gpus", "100000"},
        {"failures-per-1000-node-days", "6.5"},
        {"state", "500GB"},
        {"stall", "5s"},
        {"persist", "1min"},
        {"recovery", "2min"}}},
      {"rsc-1",
       "16,384 accelerators at the failure rate of Meta's RSC-1 (HPCA 2025)",
       {{"gpus", "16384"}, {"failures-per-1000-node-days", "6.5"}, {"stall", "5min"}, {"recovery", "5min"}}},
      {"rsc-2",
       "16,384 accelerators at the failure rate of Meta's RSC-2 (HPCA 2025)",
       {{"gpus", "16384"}, {"failures-per-1000-node-days", "2.34"}, {"stall", "5min"}, {"recovery", "5min"}}},
      // 419 unexpected interruptions in 54 days on 2,048 nodes: 54 d x 2,048 / 419.
      {"llama3",
       "Llama 3 405B: 16,384 H100, 419 unexpected interruptions in 54 days",
       {{"gpus", "16384"}, {"node-mtbf", "22804651.07398568s"}, {"stall", "30s"}, {"recovery", "10min"}}},
      {"bloom",
       "BLOOM 176B: 384 A100, 2.3 TB written in 40 s, one failure a week",
       {{"gpus", "384"}, {"node-mtbf", "336d"}, {"state", "2.3TB"}, {"stall", "40s"}}}};
  return kPresets;
}

Result<Settings> preset_settings(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets()) {
    names.push_back(preset.name);
    if (preset.name != name) continue;
    Settings out;
    for (const auto& [key, value] : preset.values) out.values.emplace(key, value);
    return out;
  }
  return Error(Code::bad_argument,
               fmt::format("--preset: there is no \"{}\"; there are {}", name, fmt::join(names, ", ")))
      .next("unbroken plan --list-presets");
}

namespace {

/// The preset with its write by size and rate, not by time.
Result<Settings> by_rate(Settings preset) {
  const char* write = preset.has("persist") ? "persist" : "stall";
  UNBROKEN_TRY(const double bytes, parse_bytes(preset.values["state"], "state"));
  UNBROKEN_TRY(const double seconds, parse_duration_s(preset.values[write], write));
  preset.values["bandwidth"] = fmt::format("{}B/s", bytes / seconds);
  if (write == std::string_view("stall")) preset.values["sync"] = "true";
  erase(preset, write);
  return preset;
}

}  // namespace

Result<Settings> over_preset(std::string_view name, const Settings& said) {
  if (name.empty()) return said;
  UNBROKEN_TRY(Settings preset, preset_settings(name));
  const bool has_rate = said.has("bandwidth") || said.has("writer-bandwidth");
  const bool is_other_write = has_rate || said.has("state") || said.has("params");
  const bool is_time_said =
      said.has(preset.has("persist") ? "persist" : "stall") || said.has("sync") || !said.tiers.empty();
  if (preset.has("state") && is_other_write && !is_time_said) {
    UNBROKEN_TRY(preset, by_rate(std::move(preset)));
    if (has_rate) erase(preset, "bandwidth");
  }
  return overlay(std::move(preset), said);
}

}  // namespace unbroken
