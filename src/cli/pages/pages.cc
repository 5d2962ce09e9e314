#include "cli/pages/pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "unbroken/exit_code.h"

namespace unbroken {

namespace {

/// As roff reads it: nothing at the front of a line is a request, and a hyphen is one that can be copied.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string synopsis_of(const DescribedCommand& command) {
  std::string out = command.name;
  for (const DescribedOption& option : command.options)
    if (!option.positional.empty())
      out += option.is_required ? " " + option.positional : fmt::format(" [{}]", option.positional);
  for (const DescribedOption& option : command.options) {
    if (option.names.empty() || option.names.back() == "--help") continue;
    const std::string text = option.names.back() + (option.takes_value ? " VALUE" : "");
    out += option.is_required ? " " + text : fmt::format(" [{}]{}", text, option.is_repeated ? "..." : "");
  }
  return out;
}

/// Within single quotes of a shell.
std::string shell_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

/// A text of _arguments and _describe, where brackets and colons mean something.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return shell_quoted(out);
}

struct ExitStatus {
  ExitCode code;
  std::string_view meaning;
};
constexpr std::array kStatuses{
    ExitStatus{ExitCode::finished, "done"},
    ExitStatus{ExitCode::bad_data, "damaged data, or a state that does not fit"},
    ExitStatus{ExitCode::nothing_to_resume, "nothing there, or a journal that cannot be read"},
    ExitStatus{ExitCode::storage_unavailable, "the storage does not do what was asked, or is full"},
    ExitStatus{ExitCode::misconfigured, "a mistake in the command"},
};

}  // namespace

DescribedCommand described(std::string_view name, std::string_view summary, const CLI::App& app) {
  DescribedCommand out{std::string(name), std::string(summary), {}};
  for (const CLI::Option* option : app.get_options()) {
    DescribedOption one;
    for (const std::string& letter : option->get_snames()) one.names.push_back("-" + letter);
    for (const std::string& word : option->get_lnames()) one.names.push_back("--" + word);
    if (one.names.empty()) one.positional = option->get_name(true);
    one.description = option->get_description();
    one.takes_value = option->get_items_expected_max() > 0;
    one.is_required = option->get_required();
    one.is_repeated = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    out.options.push_back(std::move(one));
  }
  return out;
}

std::string man_page(const std::vector<DescribedCommand>& commands, std::string_view version) {
  std::string out = fmt::format(".TH UNBROKEN 1 \"\" \"unbroken {}\" \"User Commands\"\n", version);
  out += ".SH NAME\nunbroken \\- training runs that cannot be lost\n.SH SYNOPSIS\n";
  out += ".B unbroken\n.I COMMAND\n.RI [ ... ]\n.SH DESCRIPTION\n";
  out +=
      "Looks at the checkpoints of a training run, brings them in and out, kills trainings on purpose to "
      "prove "
      "that they go on, and plans jobs.\nResults go to standard output, everything else to standard error.\n"
      "With\n.B \\-\\-json\nthe result is one JSON object.\n.SH COMMANDS\n";
  for (const DescribedCommand& command : commands) {
    out += fmt::format(".SS {}\n{}.\n.PP\n.B unbroken {}\n", roff(command.name), roff(command.summary),
                       roff(synopsis_of(command)));
    for (const DescribedOption& option : command.options) {
      const std::string names =
          option.names.empty() ? option.positional : fmt::format("{}", fmt::join(option.names, ", "));
      const bool has_value = !option.names.empty() && option.takes_value;
      out += fmt::format(".TP\n.B {}{}\n{}\n", roff(names), has_value ? " VALUE" : "",
                         option.description.empty() ? "\\&" : roff(option.description));
    }
  }
  out += ".SH EXIT STATUS\n";
  for (const ExitStatus& status : kStatuses)
    out += fmt::format(".TP\n.B {}\n{}.\n", static_cast<int>(status.code), roff(status.meaning));
  return out + ".PP\nA command that says more with its status says so in the reference of the program.\n";
}

std::string bash_completion(const std::vector<DescribedCommand>& commands) {
  std::vector<std::string> names;
  std::string cases;
  for (const DescribedCommand& command : commands) {
    names.push_back(command.name);
    std::vector<std::string> options;
    for (const DescribedOption& option : command.options)
      options.insert(options.end(), option.names.begin(), option.names.end());
    cases += fmt::format("    {}) options='{}' ;;\n", command.name, fmt::join(options, " "));
  }
  return fmt::format(R"(# Completion of `unbroken` for bash. Made by `unbroken generate bash`.
_unbroken() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} options=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '{}' -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  # Anything else is a file, which the shell completes by itself.
  [[ $current == -* ]] && COMPREPLY=($(compgen -W "$options" -- "$current"))
}}
complete -o bashdefault -o default -F _unbroken unbroken
)",
                     fmt::join(names, " "), cases);
}

std::string zsh_completion(const std::vector<DescribedCommand>& commands) {
  std::string list, cases;
  for (const DescribedCommand& command : commands) {
    list += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.summary));
    cases += fmt::format("    {})\n      _arguments -S", command.name);
    for (const DescribedOption& option : command.options)
      for (const std::string& name : option.names)
        cases += fmt::format(" \\\n        '{}{}[{}]{}'", option.is_repeated ? "*" : "", name,
                             zsh_text(option.description), option.takes_value ? ":value:_files" : "");
    cases += " \\\n        '*:file:_files'\n      ;;\n";
  }
  return fmt::format(R"(#compdef unbroken
# Completion of `unbroken` for zsh. Made by `unbroken generate zsh`.
_unbroken() {{
  local -a commands
  commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
{}  esac
}}
_unbroken "$@"
)",
                     list, cases);
}

}  // namespace unbroken
