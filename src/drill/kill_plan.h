#pragma once
// Where each life of a drill is killed: chosen by a seed from what the undisturbed run went through. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unbroken {

/// Points that every undisturbed run has: a step was completed; something was committed.
inline constexpr std::string_view kStepPoint = "step.boundary", kCommitPoint = "commit.done";

enum class KillAt : std::uint8_t {
  points,  ///< at a named point: of the library, inside saves and openings; or of a file that is written
  steps,   ///< right after a step completed
  random,  ///< at any time
};
enum class KillBy : std::uint8_t { kill, term, stop };  ///< stop: SIGSTOP, then SIGKILL

std::optional<KillAt> kill_at_from(std::string_view text);
std::string_view name_of(KillBy by);  ///< "SIGKILL"

/// The undisturbed run.
struct StraightRun {
  std::uint64_t steps = 0;
  std::vector<std::string> points;  ///< names in the order of their passes
  /// Never passed by a run that starts fresh, always by one that resumes.
  std::vector<std::string> resume_points;
  double seconds = 0, first_step_s = 0;
};

struct Kill {
  KillBy by = KillBy::kill;
  std::string point;       ///< empty: killed from outside
  std::uint64_t pass = 0;  ///< of the point, in this life, from 1
  /// Killed from outside once this step is completed, at the latest (a point may not be passed again); 0:
  /// not.
  std::uint64_t step = 0;
  /// Killed from outside that long after `is_from_start ? start : first step`, where there is neither.
  double delay_s = 0;
  bool is_from_start = false;
};

class KillPlan {
 public:
  KillPlan(KillAt at, std::uint64_t kills, std::uint64_t seed, StraightRun straight);
  /// For the next life, which begins after `began` steps. `has_checkpoint`: something was committed already;
  /// before that a kill has to leave time for it. nullopt: no kills are left, or no step to do.
  std::optional<Kill> next(std::uint64_t began, bool has_checkpoint);
  /// The life was killed.
  void count() { ++done_; }
  std::uint64_t kills() const { return done_; }

 private:
  std::uint64_t draw(std::uint64_t below);
  double draw_fraction();
  void choose_point(Kill& kill, std::uint64_t window, bool has_checkpoint);

  KillAt at_;
  std::uint64_t wanted_, done_ = 0, planned_ = 0;
  std::uint64_t random_;
  StraightRun straight_;
  std::vector<std::string> names_;  // of points, shuffled
  std::vector<KillBy> signals_;     // shuffled
};

}  // namespace unbroken
