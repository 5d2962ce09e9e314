// The program `unbroken`: every command looks at a run, keeps or removes a checkpoint, drills, or plans; none
// of them trains.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/pages/pages.h"
#include "cli/plan_command.h"
#include "os/user/user_file.h"
#include "unbroken_version.h"

namespace {

struct Command {
  std::string_view name, summary;
  int (*run)(int argc, char** argv);
};

int generate_command(int argc, char** argv);

constexpr std::array<Command, 17> kCommands{{
    {"ls", "the checkpoints of a run, newest first", unbroken::ls_command},
    {"show", "what a checkpoint holds: tensors, state, provenance", unbroken::show_command},
    {"verify", "read everything back and name what is damaged", unbroken::verify_command},
    {"diff", "what two checkpoints do not have alike", unbroken::diff_command},
    {"doctor", "what is damaged, why the last life ended, what to do next", unbroken::doctor_command},
    {"keep", "keep a checkpoint under a tag", unbroken::keep_command},
    {"unkeep", "leave it to retention again", unbroken::unkeep_command},
    {"rm", "remove a checkpoint", unbroken::rm_command},
    {"export", "tensors of a checkpoint as one safetensors file", unbroken::export_command},
    {"import", "a foreign checkpoint as a run", unbroken::import_command},
    {"drill", "kill a training on purpose: it must continue bit for bit", unbroken::drill_command},
    {"plan", "what to expect of a job: interval, efficiency, money", unbroken::plan_command},
    {"simulate", "run a job event by event, many times over", unbroken::simulate_command},
    {"explain", "why a run saves as often as it does", unbroken::explain_command},
    {"trace", "lives and saves as a timeline for ui.perfetto.dev", unbroken::trace_command},
    {"generate", "the manual page and completions for shells", generate_command},
    {"version", "version, format and commit", unbroken::version_command},
}};

constexpr std::array<std::string_view, 6> kLater{"run", "repair", "copy", "halt", "top", "serve"};

/// The options of every command, each asked for by running it without its body.
std::vector<unbroken::DescribedCommand> describe_all() {
  std::vector<unbroken::DescribedCommand> out;
  for (const Command& command : kCommands) {
    unbroken::describe_commands_to(
        [&](const CLI::App& app) { out.push_back(unbroken::described(command.name, command.summary, app)); });
    std::string name(command.name);
    char* argv[] = {name.data(), nullptr};
    command.run(1, argv);
  }
  unbroken::describe_commands_to({});
  return out;
}

unbroken::Result<int> generate(const std::string& what, const std::string& to) {
  const auto commands = describe_all();
  const std::string text = what == "man"    ? unbroken::man_page(commands, UNBROKEN_VERSION)
                           : what == "bash" ? unbroken::bash_completion(commands)
                                            : unbroken::zsh_completion(commands);
  const auto written = to.empty() ? unbroken::print(text) : unbroken::write_user_file(to, text);
  if (!written.ok()) return written.error();
  return 0;
}

int generate_command(int argc, char** argv) {
  CLI::App app("The manual page and completions for shells", "unbroken generate");
  std::string what, to;
  app.add_option("WHAT", what, "man, bash or zsh")->required()->check(CLI::IsMember({"man", "bash", "zsh"}));
  app.add_option("--to", to, "a file in place of standard output; it is replaced");
  return unbroken::run_command(app, argc, argv, [&] { return generate(what, to); });
}

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
  if (name == "--help" || name == "-h" || name == "help") return unbroken::print_alone(usage());
  if (name == "--version") return unbroken::print_alone(fmt::format("unbroken {}\n", UNBROKEN_VERSION));
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
