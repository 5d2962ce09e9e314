// The program `unbroken`: every command looks at a run, drills one, or plans one; none of them trains.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/plan_command.h"
#include "unbroken_version.h"

namespace {

struct Command {
  std::string_view name, summary;
  int (*run)(int argc, char** argv);
};

constexpr std::array<Command, 9> kCommands{{
    {"ls", "the checkpoints of a run, newest first", unbroken::ls_command},
    {"show", "what a checkpoint holds: tensors, state, provenance", unbroken::show_command},
    {"verify", "read everything back and name what is damaged", unbroken::verify_command},
    {"diff", "what two checkpoints do not have alike", unbroken::diff_command},
    {"drill", "kill a training on purpose: it must continue bit for bit", unbroken::drill_command},
    {"plan", "what to expect of a job: interval, efficiency, money", unbroken::plan_command},
    {"simulate", "run a job event by event, many times over", unbroken::simulate_command},
    {"explain", "why a run saves as often as it does", unbroken::explain_command},
    {"version", "version, format and commit", unbroken::version_command},
}};

constexpr std::array<std::string_view, 13> kLater{"rm",     "keep",  "unkeep", "doctor", "export",
                                                  "import", "trace", "run",    "repair", "copy",
                                                  "halt",   "top",   "serve"};

std::string usage() {
  std::string text =
      "unbroken: training runs that cannot be lost\n\nusage: unbroken COMMAND ... [--json]\n\n";
  for (const Command& command : kCommands) text += fmt::format("  {:<10}{}\n", command.name, command.summary);
  return text + "\n`unbroken COMMAND --help` has the details.\n";
}

int run(int argc, char** argv) {
  using unbroken::Code;
  using unbroken::Error;
  const bool is_json = unbroken::wants_json(argc, argv);
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") return unbroken::print(usage()).ok() ? 0 : 74;
  if (name == "--version")
    return unbroken::print(fmt::format("unbroken {}\n", UNBROKEN_VERSION)).ok() ? 0 : 74;
  for (const Command& command : kCommands)
    if (command.name == name) return command.run(argc - 1, argv + 1);
  const bool is_later = std::find(kLater.begin(), kLater.end(), name) != kLater.end();
  const std::string why = name.empty() ? "no command was given"
                          : is_later   ? fmt::format("{}: comes later", name)
                                       : fmt::format("{}: there is no such command", name);
  return unbroken::report(Error(Code::bad_argument, why).next("unbroken --help"), is_json);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE,
              SIG_DFL);  // whoever reads us and leaves ends us quietly, also where a parent ignores this
  return run(argc, argv);
}
