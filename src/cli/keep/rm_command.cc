// `unbroken rm`: a checkpoint goes now, if nothing forbids it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/keep/lapse.h"
#include "cli/look.h"
#include "commit/collect.h"
#include "engine/driver.h"
#include "format/keys.h"
#include "journal/retention.h"
#include "world/advice.h"

namespace unbroken {

namespace {

/// What forbids it on this prefix.
std::vector<std::string> forbidding(const History& prefix, const SaveId& save, bool is_forced) {
  std::vector<std::string> out = kept_by(prefix, save);
  if (is_forced) std::erase_if(out, is_waived_by_force);
  return out;
}

Error refusal(const SaveId& save, const std::vector<std::string>& reasons, const std::string& directory,
              bool is_forced, Duration pin_lasts) {
  const bool is_tagged =
      std::any_of(reasons.begin(), reasons.end(), [](const std::string& r) { return r.starts_with("tag:"); });
  const bool is_fixed = is_forced || !std::all_of(reasons.begin(), reasons.end(), is_waived_by_force);
  const bool is_pinned = std::find(reasons.begin(), reasons.end(), "pin") != reasons.end();
  const std::string when = is_pinned
                               ? fmt::format("; if its reader is dead, the same command removes it after {}",
                                             format_duration(seconds_of(pin_lasts)))
                               : "";
  const std::string what = fmt::format("{} {}", shell_word(directory), save.name());
  return Error(Code::bad_argument,
               fmt::format("checkpoint {} is kept by: {}{}", save.name(), fmt::join(reasons, ", "), when))
      .next(is_tagged  ? fmt::format("unbroken unkeep {}", what)
            : is_fixed ? fmt::format("unbroken ls {}", shell_word(directory))
                       : fmt::format("unbroken rm {} --force", what));
}

std::uint64_t bytes_in(const Look& look, const SaveId& save) {
  const std::string prefix = save_prefix(save);
  const auto names = look.seams().store.list(prefix, look.by());
  std::uint64_t bytes = 0;
  if (!names.ok()) return bytes;
  for (const std::string& name : names.value())
    if (auto reader = look.seams().store.open_reader(prefix + name, look.by()); reader.ok())
      bytes += reader.value()->bytes();
  return bytes;
}

Result<int> remove(const std::string& directory, const std::string& at, bool is_forced, bool is_json) {
  UNBROKEN_TRY(Look look, look_at(directory));
  auto chosen = choose_any(look.history(), at);
  if (!chosen.ok()) return pointing_to_list(std::move(chosen).error(), directory);
  const SaveId save = chosen.value()->commit.save;
  if (!chosen.value()->pins.empty()) UNBROKEN_DO(let_pins_lapse(look));
  const std::uint64_t bytes = bytes_in(look, save);
  const Seams& seams = look.seams();
  Collect collect(
      look.history(), std::nullopt, seams.clock.wall_unix_ms(), [&seams] { return seams.draw(); },
      [&](const History& prefix) -> Result<std::optional<SaveId>> {
        const Checkpoint* c = prefix.find(save);
        if (c == nullptr || c->is_intended) return std::optional<SaveId>();
        if (const auto reasons = forbidding(prefix, save, is_forced); !reasons.empty())
          return refusal(save, reasons, directory, is_forced, seams.pin_lasts);
        return std::optional(save);
      });
  auto collected = run(seams, collect, look.by());
  if (!collected.ok()) return pointing_to_list(std::move(collected).error(), directory);
  look.has_appended(std::move(collected.value().history));
  if (look.history().find(save) != nullptr)
    return pointing_to_list(
        Error(Code::unavailable, fmt::format("checkpoint {} is condemned, and not all of it could be removed "
                                             "now: the next start of the run does",
                                             save.name())),
        directory);
  UNBROKEN_DO(is_json ? print_json({{"removed", save.name()}, {"bytes", bytes}})
                      : print(fmt::format("removed {} ({} bytes)\n", save.name(), bytes)));
  return 0;
}

}  // namespace

int rm_command(int argc, char** argv) {
  CLI::App app("Remove a checkpoint", "unbroken rm");
  std::string directory, at;
  bool is_forced = false, is_json = false;
  app.add_option("DIR", directory, "the run's directory")->required();
  app.add_option("AT", at, kAtHelp)->required();
  app.add_flag("--force", is_forced,
               "also one of those that retention keeps; never one with a tag or in use");
  app.add_flag("--json", is_json, "one JSON object");
  return run_command(app, argc, argv, [&] { return remove(directory, at, is_forced, is_json); });
}

}  // namespace unbroken
