// `unbroken drill`: flags in, verdict out; cli/drill_run.h holds the drill.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/drill_run.h"
#include "cli/interrupts.h"
#include "os/os_process.h"
#include "os/user/work_folder.h"
#include "session/environment.h"
#include "unbroken/exit_code.h"

namespace unbroken {

namespace {

struct Flags {
  std::string kills = "3", at = "points", seed = "1", folder;
  bool is_json = false;
};

Json to_json(const DrillResult& result, const Flags& flags, const std::string& folder) {
  Json lives = Json::array();
  for (const Life& life : result.lives)
    lives.push_back({{"began", life.began ? Json(*life.began) : Json()},
                     {"killed", life.killed.empty() ? Json() : Json(life.killed)},
                     {"ended", life.ended}});
  Json first;
  if (const auto& d = result.difference)
    first = {{"step", d->step},
             {"name", d->name},
             {"straight", d->straight},
             {"other", d->other},
             {"life", d->life}};
  return {{"ok", result.is_ok()},
          {"kills", result.kills},
          {"resumes", result.resumes},
          {"deterministic", result.is_deterministic},
          {"first_difference", std::move(first)},
          {"not_attached", result.not_attached},
          {"not_seeded", result.not_seeded},
          {"steps", result.steps},
          {"seed", parse_u64(flags.seed).value()},
          {"lives", std::move(lives)},
          {"dir", folder.empty() ? Json() : Json(folder)}};
}

std::string where_of(const Difference& d) {
  if (d.name == "step")
    return d.straight.empty()
               ? fmt::format("step {} was completed, which the undisturbed run does not have", d.step)
               : fmt::format("step {} was never completed", d.step);
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("nothing") : text; };
  return fmt::format("step {}: {} is {}, without kills {}", d.step, d.name, shown(d.other),
                     shown(d.straight));
}

std::string verdict_of(const DrillResult& result, std::uint64_t kills_wanted) {
  if (!result.is_deterministic)
    return painted("the command blames itself", Colour::red) +
           fmt::format(": two runs that nobody disturbed differ at {}\n", where_of(*result.difference));
  std::string out;
  if (result.kills < kills_wanted && result.is_ok())
    out += fmt::format("the run is too short for {} kills: it was killed {} times\n", kills_wanted,
                       result.kills);
  if (result.is_ok())
    return out + painted(fmt::format("{} steps, {} kills, 0 differences\n", result.steps, result.kills),
                         Colour::green);
  out += painted(fmt::format("{} steps, {} kills, and then something else\n", result.steps, result.kills),
                 Colour::red);
  out += (result.failure.empty() ? where_of(*result.difference) : result.failure) + "\n";
  for (const std::string& name : result.not_attached) out += fmt::format("{} was never attached\n", name);
  return out;
}

Result<int> drill(const Flags& flags, std::vector<std::string> command) {
  const auto number = [](const std::string& text, const char* flag,
                         std::uint64_t least) -> Result<std::uint64_t> {
    auto value = parse_u64(text, 1'000'000'000'000);
    if (value.ok() && value.value() >= least) return value;
    return Error(Code::bad_argument,
                 fmt::format("{}: \"{}\" is not a whole number of at least {}", flag, text, least));
  };
  DrillOptions options;
  UNBROKEN_TRY(options.kills, number(flags.kills, "--kills", 1));
  UNBROKEN_TRY(options.seed, number(flags.seed, "--seed", 0));
  const auto at = kill_at_from(flags.at);
  if (!at)
    return Error(Code::bad_argument, fmt::format("--at: \"{}\" is none of points, steps, random", flags.at));
  options.at = *at;
  if (command.empty())
    return Error(Code::bad_argument,
                 "no command: put it after --, for example `unbroken drill -- python train.py`");
  UNBROKEN_DO(check_environment(OsProcess()));  // the command gets it too
  options.command = std::move(command);
  UNBROKEN_TRY(options.folder, make_work_folder(flags.folder, "drill"));
  options.keeps_output = flags.is_json;
  options.tell = [](std::string_view line) { say(line); };

  auto result = run_drill(options);
  const bool is_stopped = result.is(Code::stopped);
  const bool is_kept = !flags.folder.empty() || (!is_stopped && (!result.ok() || !result.value().is_ok()));
  if (!is_kept) remove_work_folder(options.folder);
  if (is_stopped) return 0;  // by a signal, of which the caller dies
  if (!result.ok()) return std::move(result).error().next("ls -R " + options.folder);
  if (flags.is_json) {
    UNBROKEN_DO(print_json(to_json(result.value(), flags, is_kept ? options.folder : "")));
  } else {
    UNBROKEN_DO(print(verdict_of(result.value(), options.kills)));
  }
  if (is_kept) say(fmt::format("the runs are in {}", options.folder));
  return result.value().is_ok() ? 0 : static_cast<int>(ExitCode::bad_data);
}

}  // namespace

int drill_command(int argc, char** argv) {
  CLI::App app(
      "Runs a training twice undisturbed, then kills it again and again; it must continue bit for bit.\n"
      "usage: unbroken drill [OPTIONS] -- COMMAND...",
      "unbroken drill");
  Flags flags;
  app.add_option("--kills", flags.kills, "how often")->type_name("N")->capture_default_str();
  app.add_option("--at", flags.at, "points of the library, steps, or random")
      ->type_name("points|steps|random")
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "of every choice")->type_name("S")->capture_default_str();
  app.add_option("--dir", flags.folder, "where the runs go; kept")->type_name("D");
  app.add_flag("--json", flags.is_json, "one JSON object; the command's output goes to files");
  char** const dashes =
      std::find_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
  const std::vector<std::string> command(dashes == argv + argc ? dashes : dashes + 1, argv + argc);
  int status = 0;
  {
    const Interrupts interrupts;
    status = run_command(app, static_cast<int>(dashes - argv), argv, [&] { return drill(flags, command); });
    if (Interrupts::has_come()) Interrupts::die();
  }
  return status;
}

}  // namespace unbroken
