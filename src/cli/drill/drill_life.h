#pragma once
// One life of a drilled command: started, watched, killed as planned, and what it said.
#include <optional>
#include <string>
#include <vector>

#include "cli/drill/drill_run.h"
#include "drill/tap.h"

namespace unbroken {

struct LifeFiles {
  std::string run;           ///< UNBROKEN_DIR
  std::string stem;          ///< of the files below
  std::string witness = {};  ///< a folder where Python looks first for what it imports; empty: none
  std::string tap() const { return stem + ".tap.jsonl"; }
  std::string points() const { return stem + ".points"; }
  std::string out() const { return stem + ".out"; }
  std::string err() const { return stem + ".err"; }
};

struct LifeEnd {
  Child::End end;
  bool was_killed = false;  ///< by us
  std::string killed_at;    ///< the point; empty: from outside
  double seconds = 0, first_step_s = 0;
  std::vector<TapStep> steps;
  Series series;  ///< what it said of its metrics, as text
  std::vector<std::string> points;
  // Of a command without Unbroken:
  std::uint64_t completed = 0, committed = 0;  ///< steps, counted; those before the newest file was written
  std::string why_silent;                      ///< where it told of no step
};

/// `{dir}` in a text is the life's own directory.
std::string with_directory(std::string_view text, std::string_view directory);

class Listener;

/// "status 1", "SIGKILL", "signal 11".
std::string text_of(const Child::End& end);

/// The newest checkpoint that is committed in a directory, and the attempts that were opened there.
struct RunState {
  std::uint64_t attempts = 0;
  std::uint64_t newest_began = 0;            ///< where the newest attempt resumed from; 0: from the start
  std::optional<std::uint64_t> newest_step;  ///< of the newest checkpoint
};
RunState state_of_run(const std::string& directory);

/// `kill` empty: undisturbed. Errors: bad_argument (no such command), stopped (Ctrl-C), corrupt (a tap that
/// cannot be read), unavailable.
Result<LifeEnd> live(const DrillOptions& options, const LifeFiles& files, const std::optional<Kill>& kill,
                     Listener& listener);

}  // namespace unbroken
