// `unbroken drill`: flags in, verdict out; cli/drill_run.h holds the drill.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/drill/drill_run.h"
#include "cli/drill/loss_lines.h"
#include "cli/interrupts.h"
#include "drill/metrics_lines.h"
#include "drill/report.h"
#include "os/os_process.h"
#include "os/user/user_file.h"
#include "os/user/work_folder.h"
#include "session/environment.h"
#include "unbroken/exit_code.h"
#include "world/advice.h"

namespace unbroken {

namespace {

struct Flags {
  std::string kills = "3", at = "points", seed = "1", folder;
  PrintedOptions printed;
  bool is_printed = false;  // one of them was given
  bool is_json = false;
};

constexpr std::string_view kReport = "/report.html";

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
          {"not_seen", result.not_seen.size()},
          {"final_differs", result.final_differs},
          {"forgotten", result.forgotten},
          {"explanation", explanation(result)},
          {"steps", result.steps},
          {"seed", parse_u64(flags.seed).value()},
          {"lives", std::move(lives)},
          {"report", folder.empty() ? Json() : Json(folder + std::string(kReport))},
          {"dir", folder.empty() ? Json() : Json(folder)}};
}

std::string verdict_of(const DrillResult& result, std::uint64_t kills_wanted) {
  if (!result.is_deterministic)
    return painted(headline(result), Colour::red) +
           fmt::format(", at {}\n", printable(text_of(*result.difference)));
  std::string out;
  if (result.kills < kills_wanted && result.is_ok())
    out += fmt::format("the run is too short for {} kills: it was killed {} times\n", kills_wanted,
                       result.kills);
  if (!result.not_seen.empty())
    out += fmt::format("{} steps were not compared: a life was killed before they were printed\n",
                       result.not_seen.size());
  if (result.is_printed && !result.has_final && result.is_ok())
    out += "the final state was not compared: --final FILE names it\n";
  out += painted(headline(result), result.is_ok() ? Colour::green : Colour::red) + "\n";
  if (result.is_ok()) {
    for (const std::string& name : result.not_attached)
      out += painted(fmt::format("{} is not attached: no checkpoint holds it, though nothing differed",
                                 printable(name)),
                     Colour::yellow) +
             "\n";
    return out;
  }
  out += printable(result.failure.empty() ? text_of(*result.difference) : result.failure) + "\n";
  for (const std::string& name : result.not_attached)
    out += fmt::format("{} was never attached\n", printable(name));
  if (const std::string why = explanation(result); !why.empty()) out += printable(why) + "\n";
  return out;
}

/// What can be said about the flags before anything runs.
Result<std::optional<PrintedOptions>> printed_options(const Flags& flags) {
  const PrintedOptions& printed = flags.printed;
  if (!flags.is_printed) return std::optional<PrintedOptions>();
  if (!printed.loss_regex.empty() && !printed.metrics.empty())
    return Error(Code::bad_argument, "--loss-regex and --metrics: one of them tells of the losses, not both");
  if (!printed.metrics.empty()) {
    if (auto kind = MetricsLines::kind_of(printed.metrics); !kind.ok())
      return std::move(kind).error().with("--metrics");
  } else if (printed.loss_regex.empty() && !printed.final_state.empty()) {
    return Error(Code::bad_argument,
                 "--final: the drill has to see the steps too: add --loss-regex RE or --metrics FILE");
  } else if (auto lines = LossLines::compile(printed.loss_regex, ""); !lines.ok()) {
    return std::move(lines).error();
  }
  return std::optional<PrintedOptions>(printed);
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
  UNBROKEN_TRY(options.printed, printed_options(flags));
  UNBROKEN_TRY(options.folder, make_work_folder(flags.folder, "drill"));
  options.keeps_output = flags.is_json;
  options.tell = [](std::string_view line) { say(line); };

  DrillResult result;
  auto ran = run_drill(options, result);
  const bool is_stopped = ran.is(Code::stopped);
  const bool is_kept = !flags.folder.empty() || (!is_stopped && (!ran.ok() || !result.is_ok()));
  if (!is_kept) remove_work_folder(options.folder);
  if (is_stopped) return 0;  // by a signal, of which the caller dies
  // Once there is something to draw.
  const bool has_report = is_kept && !result.straight.empty();
  if (has_report)
    UNBROKEN_DO(write_user_file(options.folder + std::string(kReport),
                                report_html({.command = options.command,
                                             .seed = options.seed,
                                             .kills_wanted = options.kills,
                                             .at = flags.at,
                                             .refusal = ran.ok() ? "" : ran.error().what()},
                                            result)));
  if (!ran.ok()) return std::move(ran).error().next("ls -R " + shell_word(options.folder));
  if (flags.is_json) {
    UNBROKEN_DO(print_json(to_json(result, flags, is_kept ? options.folder : "")));
  } else {
    UNBROKEN_DO(print(verdict_of(result, options.kills)));
  }
  if (is_kept) say(fmt::format("the runs are in {0}, a picture of them in {0}{1}", options.folder, kReport));
  return result.is_ok() ? 0 : static_cast<int>(ExitCode::bad_data);
}

}  // namespace

int drill_command(int argc, char** argv) {
  CLI::App app(
      "Runs a training twice undisturbed, then kills it again and again; it must continue bit for bit.\n"
      "{dir} in the command and in a FILE is the directory of that run, as is $UNBROKEN_DIR.\n"
      "usage: unbroken drill [OPTIONS] -- COMMAND...",
      "unbroken drill");
  Flags flags;
  app.add_option("--kills", flags.kills, "how often")->type_name("N")->capture_default_str();
  app.add_option("--at", flags.at, "points of the library, steps, or random")
      ->type_name("points|steps|random")
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "of every choice")->type_name("S")->capture_default_str();
  app.add_option("--dir", flags.folder, "where the runs go; kept")->type_name("D");
  auto* const loss =
      app.add_option("--loss-regex", flags.printed.loss_regex,
                     "for a command without Unbroken: finds (?P<step>...) and (?P<loss>...) in "
                     "the lines that it prints")
          ->type_name("RE");
  auto* const metrics =
      app.add_option("--metrics", flags.printed.metrics, "or the file to which it writes them")
          ->type_name("FILE.csv|.jsonl");
  auto* const final_state =
      app.add_option("--final", flags.printed.final_state, "the state that it leaves when it has finished")
          ->type_name("FILE.pt|.safetensors");
  app.add_flag("--json", flags.is_json, "one JSON object; the command's output goes to files");
  char** const dashes =
      std::find_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
  const std::vector<std::string> command(dashes == argv + argc ? dashes : dashes + 1, argv + argc);
  int status = 0;
  {
    const Interrupts interrupts;
    status = run_command(app, static_cast<int>(dashes - argv), argv, [&] {
      flags.is_printed = loss->count() + metrics->count() + final_state->count() > 0;
      return drill(flags, command);
    });
    if (Interrupts::has_come()) Interrupts::die();
  }
  return status;
}

}  // namespace unbroken
