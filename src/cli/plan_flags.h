#pragma once
// The flags that `plan` and `simulate` share, put together with a preset and a file to one description of a
// job.
#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "planner/inputs.h"
#include "planner/settings.h"

namespace unbroken {

/// For CLI11: what is wrong with a value that must say something.
std::string not_empty(const std::string& text);

class PlanFlags {
 public:
  /// Adds the flags to `app`; they are parsed by it into this object, which must outlive the parse.
  explicit PlanFlags(CLI::App& app);
  PlanFlags(const PlanFlags&) = delete;
  PlanFlags& operator=(const PlanFlags&) = delete;

  /// Preset, then file, then flags. Errors: bad_argument naming the flag, and those of reading the file.
  Result<JobInputs> job() const;

  bool is_json = false;
  bool lists_presets = false;
  std::string chart;  ///< path, .svg or .html; empty: none

 private:
  const CLI::App& app_;
  std::map<std::string, std::string, std::less<>> texts_;
  std::vector<std::string> tiers_;
  std::string preset_;
  std::string config_;
};

/// Reads a YAML map of settings: the flags' names with `-` or `_`, `preset`, and `tiers` as a list of texts
/// or maps. Errors: bad_argument naming the file and the key.
Result<Settings> parse_config(std::string_view yaml, std::string_view path, std::string& preset);

std::string presets_text();
Json presets_json();

/// A file that the flag `flag` names. Errors: bad_argument (it is not there, too large), unavailable; naming
/// the flag.
Result<std::string> read_file_of(std::string_view flag, const std::string& path,
                                 std::size_t bytes_max = std::size_t{64} << 20);

}  // namespace unbroken
