#include "cli/plan_flags.h"

#include <fmt/format.h>

#include "os/user/user_file.h"

namespace unbroken {

std::string not_empty(const std::string& text) {
  return text.empty() ? "is empty" : "";
}

PlanFlags::PlanFlags(CLI::App& app) : app_(app) {
  app.add_option("--preset", preset_, "a job to start from: --list-presets")->check(not_empty);
  app.add_flag("--list-presets", lists_presets, "name the presets and end");
  app.add_option("--config", config_, "settings from a YAML file, by the names of these flags")
      ->check(not_empty);
  for (const Flag& flag : plan_flags()) {
    std::string& text = texts_[std::string(flag.name)];
    const std::string name = fmt::format("--{}", flag.name), help(flag.help);
    if (flag.value.empty())
      app.add_flag_function(name, [&text](std::int64_t) { text = "true"; }, help);
    else
      app.add_option(name, text, help)->type_name(std::string(flag.value));
  }
  app.add_option("--tier", tiers_,
                 "NAME:stall=D,persist=D,recovers=F,recovery=D[,price=X]; repeated, cheapest first")
      ->type_name("TIER")
      ->expected(1, static_cast<int>(kTiersMax))
      ->allow_extra_args(false);
  app.add_option("--chart", chart, "write a picture of the waste over the interval")
      ->type_name("FILE.svg|FILE.html")
      ->check(not_empty);
  app.add_flag("--json", is_json, "one JSON object");
}

Result<JobInputs> PlanFlags::job() const {
  Settings flags;
  for (const Flag& flag : plan_flags()) {
    const std::string name(flag.name);
    if (app_.count("--" + name) > 0) flags.values[name] = texts_.find(name)->second;
  }
  flags.tiers = tiers_;
  UNBROKEN_DO(check_layer(flags));

  std::string preset = preset_;
  Settings file;
  if (!config_.empty()) {
    UNBROKEN_TRY(const std::string text, read_file_of("--config", config_, std::size_t{1} << 20));
    std::string named;
    UNBROKEN_TRY(file, parse_config(text, config_, named));
    if (auto checked = check_layer(file); !checked.ok())
      return std::move(checked).error().with(fmt::format("--config {}", config_));
    if (preset.empty()) preset = named;
  }
  UNBROKEN_TRY(const Settings all, over_preset(preset, overlay(std::move(file), flags)));
  return job_inputs(all, preset);
}

std::string presets_text() {
  std::string out;
  for (const Preset& preset : presets()) {
    out += fmt::format("{:<17}{}\n{:<17}", preset.name, preset.about, "");
    for (const auto& [key, value] : preset.values) out += fmt::format("--{} {} ", key, value);
    out.back() = '\n';
  }
  return out;
}

Json presets_json() {
  Json list = Json::array();
  for (const Preset& preset : presets()) {
    Json flags = Json::object();
    for (const auto& [key, value] : preset.values) flags[std::string(key)] = std::string(value);
    list.push_back(
        {{"name", std::string(preset.name)}, {"about", std::string(preset.about)}, {"flags", flags}});
  }
  return {{"presets", list}};
}

Result<std::string> read_file_of(std::string_view flag, const std::string& path, std::size_t bytes_max) {
  auto text = read_user_file(path, bytes_max);
  if (text.ok()) return text;
  if (text.is(Code::not_found)) text = Error(Code::bad_argument, text.error().what());
  return std::move(text).error().with(flag);
}

}  // namespace unbroken
