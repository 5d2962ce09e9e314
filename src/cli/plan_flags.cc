#include "cli/plan_flags.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "os/user_file.h"

namespace unbroken {

PlanFlags::PlanFlags(CLI::App& app) : app_(app) {
  app.add_option("--preset", preset_, "a job to start from: --list-presets");
  app.add_flag("--list-presets", lists_presets, "name the presets and end");
  app.add_option("--config", config_, "settings from a YAML file, by the names of these flags");
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
      ->expected(1, 64)
      ->allow_extra_args(false);
  app.add_option("--chart", chart, "write a picture of the waste over the interval")
      ->type_name("FILE.svg|FILE.html");
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
    auto text = read_user_file(config_, std::size_t{1} << 20);
    if (!text.ok()) return std::move(text).error().with("--config");
    std::string named;
    UNBROKEN_TRY(file, parse_config(text.value(), config_, named));
    if (auto checked = check_layer(file); !checked.ok())
      return std::move(checked).error().with(fmt::format("--config {}", config_));
    if (preset.empty()) preset = named;
  }
  Settings base;
  if (!preset.empty()) {
    UNBROKEN_TRY(base, preset_settings(preset));
  }
  return job_inputs(overlay(overlay(std::move(base), file), flags), preset);
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

namespace {

/// Exit statuses of these two commands; docs/reference has them all.
constexpr int kMisconfigured = 78, kStorageUnavailable = 74;

int report(const Error& error, bool is_json) {
  const bool is_storage = error.code() == Code::unavailable || error.code() == Code::no_space;
  const int status = is_storage ? kStorageUnavailable : kMisconfigured;
  if (is_json) {
    const Json json{{"error",
                     {{"kind", is_storage ? "StorageUnavailable" : "Misconfigured"},
                      {"exit_code", status},
                      {"message", error.what()},
                      {"next_command", error.next_command().empty() ? Json() : Json(error.next_command())}}}};
    fmt::print(stdout, "{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  }
  fmt::print(stderr, "error: {}{}\n", error.what(),
             error.next_command().empty() ? "" : fmt::format(" (`{}`)", error.next_command()));
  return status;
}

}  // namespace

int run_parsed(CLI::App& app, int argc, char** argv, const std::function<Result<>()>& body) {
  bool is_json = false;
  for (int i = 1; i < argc; ++i) is_json |= std::strcmp(argv[i], "--json") == 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help
    app.exit(e);
    return 0;
  } catch (const CLI::ParseError& e) {
    return report(Error(Code::bad_argument, e.what()).next(fmt::format("unbroken {} --help", argv[0])),
                  is_json);
  }
  const auto done = body();
  return done.ok() ? 0 : report(done.error(), is_json);
}

}  // namespace unbroken
