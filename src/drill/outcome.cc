#include "drill/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace unbroken {

namespace {

/// Steps of the undisturbed run from where the life began to the one that differs, that one too.
std::uint64_t steps_until(const DrillResult& result, const Life& life, std::uint64_t differs) {
  const auto from =
      life.series.empty() ? result.straight.end() : result.straight.lower_bound(life.series.begin()->first);
  const auto to = result.straight.upper_bound(differs);
  return from == result.straight.end() ? 0 : static_cast<std::uint64_t>(std::distance(from, to));
}

/// Is every step told of, so that the second one after a resume is the second one?
bool has_every_step(const Series& series) {
  return !series.empty() && series.rbegin()->first - series.begin()->first + 1 == series.size();
}

/// Was there a loss in this step, and was it right?
bool has_right_loss(const DrillResult& result, const Life& life, std::uint64_t step) {
  const auto straight = result.straight.find(step), other = life.series.find(step);
  if (straight == result.straight.end() || other == life.series.end()) return false;
  const auto one = straight->second.find("loss"), two = other->second.find("loss");
  return one != straight->second.end() && two != other->second.end() && one->second == two->second;
}

std::string of_losses(const DrillResult& result, const Difference& d) {
  if (!has_every_step(result.straight) || d.life == 0 || d.life > result.lives.size()) return {};
  const Life& life = result.lives[d.life - 1];
  if (!life.is_resumed || life.series.empty() || life.series.begin()->first > d.step) return {};
  if (d.name != "loss" && has_right_loss(result, life, d.step))
    return fmt::format(
        "{} differs in a step whose loss is right, so what {} is computed from did not come back: for a "
        "learning rate the schedule, or the optimizer that it acts on.",
        d.name, d.name);
  const std::uint64_t count = steps_until(result, life, d.step);
  if (count == 1)
    return "The first loss after the resume differs already, so what it is computed from did not come back: "
           "the "
           "model's state, the position in the data, a random generator (dropout, shuffling, noise), or, "
           "where "
           "it is computed after the update, the optimizer's state.";
  if (count == 2)
    return "The first loss after the resume is right and the second is not: model, data and generators came "
           "back, but what the update uses did not: the optimizer's state, the learning-rate schedule, a "
           "gradient scaler.";
  return fmt::format(
      "{} losses after the resume are right before one differs: what was forgotten acts seldom or slowly: "
      "the order of the data at the edge of an epoch, a schedule, an average.",
      count - 1);
}

}  // namespace

std::string headline(const DrillResult& result) {
  if (!result.is_deterministic) return "the command blames itself: two runs that nobody disturbed differ";
  return fmt::format("{} steps, {} kills, {}", result.steps, result.kills,
                     result.is_ok() ? "0 differences" : "and then something else");
}

std::string explanation(const DrillResult& result) {
  if (!result.is_deterministic || result.is_ok()) return {};
  if (!result.not_attached.empty())
    return fmt::format("No checkpoint holds what is not attached: {}.", fmt::join(result.not_attached, ", "));
  if (!result.failure.empty()) {
    for (std::size_t i = 1; i < result.lives.size(); ++i)
      if (const Life& before = result.lives[result.lives.size() - i - 1]; !before.torn_file.empty())
        return fmt::format(
            "{} was being written when life {} was killed: a checkpoint that is written in its place is torn "
            "by a kill. Write it beside its place, sync it, then rename it.",
            before.torn_file, result.lives.size() - i);
    return {};
  }
  if (!result.is_printed || !result.difference) return {};
  const Difference& d = *result.difference;
  if (!result.forgotten.empty())
    return fmt::format(
        "What life {} resumed from does not bring back: {}. Whatever else was seen of the training is as in "
        "the undisturbed run.",
        d.life, fmt::join(result.forgotten, ", "));
  if (d.name == "step") return {};
  if (result.final_differs.empty() || result.final_differs.front() != d.name) return of_losses(result, d);
  return fmt::format(
      "Every loss is the same and the final state is not: what {} holds was not restored, or "
      "not used again yet.",
      d.name);
}

std::string text_of(const Difference& d) {
  if (d.name == "step")
    return d.straight.empty()
               ? fmt::format("step {} was completed, which the undisturbed run does not have", d.step)
               : fmt::format("step {} was never completed", d.step);
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("nothing") : text; };
  return fmt::format("step {}: {} is {}, without kills {}", d.step, d.name, shown(d.other),
                     shown(d.straight));
}

}  // namespace unbroken
