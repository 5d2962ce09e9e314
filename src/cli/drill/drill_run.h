#pragma once
// A drill: the command runs twice undisturbed, then once more while it is killed again and again; what it
// says of each step has to be the same.
//
// Everything happens below one folder: straight/, again/ and killed/, each with the run itself (run/), what
// the tap heard (*.tap.jsonl) and the command's output (*.out, *.err).
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "drill/kill_plan.h"
#include "drill/outcome.h"
#include "os/child.h"

namespace unbroken {

/// Where a command without Unbroken tells of itself; `{dir}` in any of them is the life's directory.
struct PrintedOptions {
  std::string loss_regex, metrics;  ///< one of them
  std::string final_state;          ///< empty: not compared
};

struct DrillOptions {
  std::vector<std::string> command;  ///< `{dir}` in a word is the life's directory
  std::uint64_t kills = 3, seed = 1;
  KillAt at = KillAt::points;
  std::optional<PrintedOptions> printed;       ///< else the tap is listened to
  std::string folder;                          ///< exists, empty
  bool keeps_output = false;                   ///< the command's output goes to files, else to our stderr
  std::function<void(std::string_view)> tell;  ///< one line for each life
};

/// Fills `out` as far as it gets, also where an error ends it.
/// Errors: bad_argument (the command is not found, fails undisturbed, never completes a step, or proves
/// nothing: no life was killed and followed by one that resumed), stopped (Ctrl-C), unavailable.
Result<> run_drill(const DrillOptions& options, DrillResult& out);

}  // namespace unbroken
