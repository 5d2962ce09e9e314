#include "drill/kill_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace unbroken {

std::optional<KillAt> kill_at_from(std::string_view text) {
  if (text == "points") return KillAt::points;
  if (text == "steps") return KillAt::steps;
  if (text == "random") return KillAt::random;
  return std::nullopt;
}

std::string_view name_of(KillBy by) {
  return by == KillBy::kill ? "SIGKILL" : by == KillBy::term ? "SIGTERM" : "SIGSTOP and SIGKILL";
}

KillPlan::KillPlan(KillAt at, std::uint64_t kills, std::uint64_t seed, StraightRun straight)
    : at_(at),
      wanted_(kills),
      random_(seed),
      straight_(std::move(straight)),
      signals_{KillBy::kill, KillBy::term, KillBy::stop} {
  const std::set<std::string> distinct(straight_.points.begin(), straight_.points.end());
  names_.assign(distinct.begin(), distinct.end());
  if (!names_.empty())
    names_.insert(names_.end(), straight_.resume_points.begin(), straight_.resume_points.end());
  for (std::size_t i = names_.size(); i > 1; --i) std::swap(names_[i - 1], names_[draw(i)]);
  for (std::size_t i = signals_.size(); i > 1; --i) std::swap(signals_[i - 1], signals_[draw(i)]);
}

/// SplitMix64, so that a seed means the same everywhere.
std::uint64_t KillPlan::draw(std::uint64_t below) {
  std::uint64_t z = (random_ += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return (z ^ (z >> 31)) % below;
}

double KillPlan::draw_fraction() {
  constexpr std::uint64_t kParts = std::uint64_t{1} << 32;
  return static_cast<double>(draw(kParts)) / static_cast<double>(kParts);
}

std::optional<Kill> KillPlan::next(std::uint64_t began, bool has_checkpoint) {
  if (done_ >= wanted_ || began >= straight_.steps) return std::nullopt;
  const std::uint64_t left = straight_.steps - began, kills_left = wanted_ - done_;
  // The last kill too leaves something to do.
  const std::uint64_t window = std::max<std::uint64_t>(1, kills_left == 1 ? left * 3 / 4 : left / kills_left);
  Kill kill;
  kill.by = signals_[planned_++ % signals_.size()];
  switch (at_) {
    case KillAt::points:
      choose_point(kill, window, has_checkpoint);
      kill.step = began + window;
      break;
    case KillAt::steps:
      kill.step = began + 1 + draw(window);
      break;
    case KillAt::random: {
      const double stepping_s = std::max(0.0, straight_.seconds - straight_.first_step_s);
      kill.is_from_start = has_checkpoint && draw(4) == 0;
      kill.delay_s = draw_fraction() * (kill.is_from_start ? straight_.first_step_s
                                                           : stepping_s * static_cast<double>(window) /
                                                                 static_cast<double>(straight_.steps));
      break;
    }
  }
  // A kill after the last step finds a run that has finished.
  if (kill.step >= straight_.steps) kill.step = straight_.steps > 1 ? straight_.steps - 1 : straight_.steps;
  return kill;
}

/// A pass that the undisturbed run went through within its first `window` steps: every life begins alike. The
/// first kill comes after a commit.
void KillPlan::choose_point(Kill& kill, std::uint64_t window, bool has_checkpoint) {
  std::map<std::string_view, std::vector<std::uint64_t>> passes;  // that would do
  std::map<std::string_view, std::uint64_t> count;
  std::uint64_t steps = 0;
  bool is_committed = has_checkpoint;
  for (const std::string& name : straight_.points) {
    const std::uint64_t pass = ++count[name];
    if (name == kStepPoint && ++steps > window && is_committed && !passes.empty()) break;
    // A step does not wait for a commit; the points of a second save come after the first one is done.
    if (is_committed && (has_checkpoint || name != kStepPoint)) passes[name].push_back(pass);
    if (name == kCommitPoint) is_committed = true;
  }
  for (std::size_t tried = 0; tried < names_.size(); ++tried) {
    const std::string& name = names_[(planned_ + tried) % names_.size()];
    const auto found = passes.find(name);
    if (found != passes.end()) {
      kill.point = name;
      kill.pass = found->second[draw(found->second.size())];
      return;
    }
    // Rare ones come soon in a life that takes over what an earlier one left.
    if (has_checkpoint) {
      kill.point = name;
      kill.pass = 1;
      return;
    }
  }
}

}  // namespace unbroken
