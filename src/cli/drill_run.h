#pragma once
// A drill: the command runs twice undisturbed, then once more while it is killed again and again; what it
// says of each step has to be the same.
//
// Everything happens below one folder: straight/, again/ and killed/, each with the run itself (run/), what
// the tap heard (*.tap.jsonl) and the command's output (*.out, *.err).
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "drill/compare.h"
#include "drill/kill_plan.h"
#include "os/child.h"

namespace unbroken {

struct DrillOptions {
  std::vector<std::string> command;
  std::uint64_t kills = 3, seed = 1;
  KillAt at = KillAt::points;
  std::string folder;                          ///< exists, empty
  bool keeps_output = false;                   ///< the command's output goes to files, else to our stderr
  std::function<void(std::string_view)> tell;  ///< one line for each life
};

struct Life {
  std::optional<std::uint64_t> began;  ///< after that many steps; nullopt: it ended before
  std::string killed;                  ///< how, and where; empty: it was not
  std::string ended;                   ///< "finished", "SIGKILL", "status 75"
};

struct DrillResult {
  std::uint64_t steps = 0, kills = 0, resumes = 0;
  bool is_deterministic = true;
  std::optional<Difference> difference;
  std::string failure;  ///< a life that ended as none may
  std::vector<std::string> not_attached;
  std::set<std::string> not_seeded;  ///< global generators that are new in every process: not compared
  std::vector<Life> lives;
  bool is_ok() const { return is_deterministic && !difference && failure.empty(); }
};

/// Errors: bad_argument (the command is not found, fails undisturbed, never completes a step, or proves
/// nothing: no life was killed and followed by one that resumed), stopped (Ctrl-C), unavailable.
Result<DrillResult> run_drill(const DrillOptions& options);

}  // namespace unbroken
