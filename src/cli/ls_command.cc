// `unbroken ls`: what the journal says of each checkpoint; no object of a checkpoint is read.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look.h"
#include "journal/retention.h"

namespace unbroken {

namespace {

std::string_view state_of(const Checkpoint& c) {
  return c.is_quarantined() ? "quarantined" : c.verified.empty() ? "committed" : "verified";
}

/// Newest first, in the order of the journal; what was removed is not there.
std::vector<Standing> listed(const History& history) {
  std::vector<Standing> out = standings(history);
  std::reverse(out.begin(), out.end());
  return out;
}

Json metrics_of(const Checkpoint& c) {
  Json out = Json::object();
  for (const auto& [name, value] : c.commit.metrics) out[name] = json_number(value);
  return out;
}

Json entry(const Standing& standing, std::string_view survives) {
  const Checkpoint& c = *standing.checkpoint;
  const SaveId& save = c.commit.save;
  return {{"step", save.step},
          {"attempt", save.attempt},
          {"try", save.try_index},
          {"name", save.name()},
          {"state", state_of(c)},
          {"bytes", c.commit.state_bytes},
          {"created", format_time(c.at_unix_ms)},
          {"survives", survives},
          {"tiers", Json::array({c.commit.tier})},
          {"kept_by", standing.kept_by},
          {"metrics", metrics_of(c)},
          {"lineage", standing.is_on_lineage},
          {"tags", c.tags},
          {"health", c.commit.health}};
}

std::string row(const Standing& standing) {
  const Checkpoint& c = *standing.checkpoint;
  const std::string kept = printable(fmt::format("{}", fmt::join(standing.kept_by, ", ")));
  std::string metrics;
  for (const auto& [name, value] : c.commit.metrics)
    metrics += fmt::format(" {}={:.6g}", printable(name), value);
  const std::string_view state = state_of(c);
  const Colour colour = state == "quarantined" ? Colour::red
                        : state == "verified"  ? Colour::green
                                               : Colour::plain;
  return fmt::format("{:<14} {} {:>10}  {}  {:<16}{}{}{}\n", c.commit.save.name(),
                     painted(fmt::format("{:<11}", state), colour), format_bytes(c.commit.state_bytes),
                     format_time(c.at_unix_ms), kept, metrics,
                     c.commit.health == kHealthOk ? "" : "  " + printable(c.commit.health),
                     standing.is_on_lineage ? "" : "  (abandoned)");
}

Result<int> list(const std::string& directory, bool is_json) {
  UNBROKEN_TRY(const Look look, look_at(directory));
  const std::vector<Standing> all = listed(look.history());
  if (is_json) {
    Json checkpoints = Json::array();
    for (const Standing& standing : all) checkpoints.push_back(entry(standing, look.runtime->survives()));
    UNBROKEN_DO(
        print_json({{"run", look.history().genesis()->run}, {"checkpoints", std::move(checkpoints)}}));
    return 0;
  }
  for (const std::string& note : look.runtime->notes()) say(note);
  if (all.empty()) say(fmt::format("no checkpoints in {}", look.runtime->path()));
  std::string text;
  for (const Standing& standing : all) text += row(standing);
  UNBROKEN_DO(print(text));
  return 0;
}

}  // namespace

int ls_command(int argc, char** argv) {
  CLI::App app("The checkpoints of a run, newest first", "unbroken ls");
  std::string directory;
  bool is_json = false;
  app.add_option("DIR", directory, "the run's directory")->required();
  app.add_flag("--json", is_json, "one JSON object");
  return run_command(app, argc, argv, [&] { return list(directory, is_json); });
}

}  // namespace unbroken
