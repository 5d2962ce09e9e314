#pragma once
// The manual page and the completions of shells, made from the commands' own options, so that they say what
// the program does.
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace unbroken {

struct DescribedOption {
  std::vector<std::string> names;  ///< "--json"; empty for a positional
  std::string positional;          ///< "DIR"
  std::string description;
  bool takes_value = false, is_required = false, is_repeated = false;
};

struct DescribedCommand {
  std::string name, summary;
  std::vector<DescribedOption> options;
};
DescribedCommand described(std::string_view name, std::string_view summary, const CLI::App& app);

std::string man_page(const std::vector<DescribedCommand>& commands, std::string_view version);
std::string bash_completion(const std::vector<DescribedCommand>& commands);
std::string zsh_completion(const std::vector<DescribedCommand>& commands);

}  // namespace unbroken
