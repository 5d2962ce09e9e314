#include "cli/drill_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "cli/drill_life.h"
#include "os/user/user_file.h"
#include "os/user/work_folder.h"

namespace unbroken {

namespace {

class Drill {
 public:
  explicit Drill(const DrillOptions& options) : options_(options) {}

  Result<DrillResult> run() {
    UNBROKEN_TRY(const LifeEnd straight, undisturbed("straight"));
    tell(
        fmt::format("undisturbed: {} steps in {}", straight.steps.size(), format_duration(straight.seconds)));
    note_unattached(straight);
    UNBROKEN_TRY(const LifeEnd again, undisturbed("again"));
    out_.not_seeded = unseeded(straight.steps, again.steps);
    Comparison comparison(straight.steps, out_.not_seeded), same = comparison;
    out_.steps = comparison.last_step();
    same.add(1, again.steps);
    if (auto difference = same.first_difference(true)) {
      tell("undisturbed, again: something else");
      out_.is_deterministic = false;
      out_.difference = std::move(difference);
      return std::move(out_);
    }
    tell("undisturbed, again: the same");
    UNBROKEN_DO(killed(straight, comparison));
    return std::move(out_);
  }

 private:
  void tell(const std::string& line) const { options_.tell(line); }

  void note_unattached(const LifeEnd& life) {
    std::set<std::string> names;
    for (const TapStep& step : life.steps) names.insert(step.not_attached.begin(), step.not_attached.end());
    out_.not_attached.assign(names.begin(), names.end());
  }

  Result<LifeEnd> undisturbed(const std::string& name) {
    const std::string folder = options_.folder + "/" + name;
    UNBROKEN_DO(make_folder(folder));
    const LifeFiles files{folder + "/run", folder + "/life"};
    UNBROKEN_TRY(LifeEnd life, live(options_, files, std::nullopt));
    if (life.end.is_signal || life.end.number != 0)
      return Error(Code::bad_argument, fmt::format("the command fails before anything is killed: {}{}",
                                                   text_of(life.end), last_words(files)));
    if (life.steps.empty())
      return Error(Code::bad_argument,
                   "the command never completed a step: does it train with unbroken.Run, by run.steps() or "
                   "run.step()?");
    return life;
  }

  /// The end of what the command said, where it went to a file.
  std::string last_words(const LifeFiles& files) const {
    if (!options_.keeps_output) return {};
    auto text = read_user_file(files.err());
    if (!text.ok() || text.value().empty()) return {};
    std::string& words = text.value();
    constexpr std::size_t kWords = 1000;
    if (words.size() > kWords) words.erase(0, words.size() - kWords);
    while (words.ends_with('\n')) words.pop_back();
    return fmt::format("; its last words ({}):\n{}", files.err(), words);
  }

  Result<> killed(const LifeEnd& straight, Comparison& comparison) {
    const std::string folder = options_.folder + "/killed";
    UNBROKEN_DO(make_folder(folder));
    KillPlan plan(options_.at, options_.kills, options_.seed,
                  {.steps = comparison.last_step(),
                   .points = straight.points,
                   .seconds = straight.seconds,
                   .first_step_s = straight.first_step_s});
    bool was_killed = false, is_proof = false;
    RunState state;
    for (std::size_t number = 1;; ++number) {
      const LifeFiles files{folder + "/run", fmt::format("{}/life-{:03}", folder, number)};
      const auto kill = plan.next(state.newest_step.value_or(0), state.newest_step.has_value());
      UNBROKEN_TRY(const LifeEnd life, live(options_, files, kill));
      const RunState after = state_of_run(files.run);
      Life& said = out_.lives.emplace_back();
      if (!life.steps.empty())
        said.began = life.steps.front().step - 1;
      else if (after.attempts > state.attempts)
        said.began = after.newest_began;
      state = after;
      comparison.add(number, life.steps);

      const bool has_finished = !life.end.is_signal && life.end.number == 0;
      if (said.began.value_or(0) > 0) {
        ++out_.resumes;
        is_proof = is_proof || was_killed;
      }
      const bool is_kill = life.was_killed && !has_finished;
      if (is_kill) {
        plan.count();
        was_killed = true;
        said.killed =
            std::string(name_of(kill->by)) + (life.killed_at.empty() ? "" : " at " + life.killed_at);
      }
      said.ended = has_finished ? "finished" : text_of(life.end);
      tell_life(number, said, life);
      out_.kills = plan.kills();
      if (auto difference = comparison.first_difference(false)) {
        out_.difference = std::move(difference);
        return Done{};
      }
      if (!has_finished && !is_kill) {
        out_.failure = fmt::format("life {} ended with {} although nothing was done to it{}", number,
                                   text_of(life.end), last_words(files));
        out_.difference = Difference{
            said.began.value_or(0) + life.steps.size() + 1, text_of(life.end), "completed", {}, number};
        return Done{};
      }
      if (has_finished) break;
    }
    out_.difference = comparison.first_difference(true);
    if (!out_.difference && !is_proof)
      return Error(
          Code::bad_argument,
          fmt::format(
              "{} kills prove nothing: no life that was killed was followed by one that resumed above "
              "step 0; the command is too short, or never saves before it is killed",
              out_.kills));
    return Done{};
  }

  void tell_life(std::size_t number, const Life& said, const LifeEnd& life) const {
    const std::string from = !said.began        ? "ended before it began"
                             : *said.began == 0 ? "from the start"
                                                : fmt::format("from step {}", *said.began);
    const std::string to = life.steps.empty() ? "" : fmt::format(", completed {} steps", life.steps.size());
    const std::string end = said.killed.empty()       ? said.ended
                            : said.ended == "SIGKILL" ? said.killed
                                                      : fmt::format("{} ({})", said.killed, said.ended);
    tell(fmt::format("life {}: {}{}, {}", number, from, to, end));
  }

  const DrillOptions& options_;
  DrillResult out_;
};

}  // namespace

Result<DrillResult> run_drill(const DrillOptions& options) {
  return Drill(options).run();
}

}  // namespace unbroken
