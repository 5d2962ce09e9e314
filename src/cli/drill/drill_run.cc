#include "cli/drill/drill_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "cli/drill/drill_life.h"
#include "cli/drill/final_state.h"
#include "cli/drill/find_forgotten.h"
#include "cli/drill/listen.h"
#include "os/user/user_file.h"
#include "os/user/work_folder.h"
#include "os/watch/growing_file.h"

namespace unbroken {

namespace {

constexpr std::string_view kTorn = "the first write to ";

class Drill {
 public:
  Drill(const DrillOptions& options, DrillResult& out) : options_(options), out_(out) {}

  Result<> run() {
    out_.is_printed = is_printed();
    out_.has_final = is_printed() && !options_.printed->final_state.empty();
    UNBROKEN_TRY(const LifeEnd straight, undisturbed("straight", final_));
    tell(
        fmt::format("undisturbed: {} steps in {}", straight.steps.size(), format_duration(straight.seconds)));
    note_unattached(straight);
    out_.straight = straight.series;
    TapStep final_again;
    UNBROKEN_TRY(LifeEnd again, undisturbed("again", final_again));
    if (is_printed() && again.steps.front().step > straight.steps.front().step)
      return Error(Code::bad_argument,
                   fmt::format("the second undisturbed run begins at step {}, where the first one left its "
                               "state: let the command keep everything in {{dir}}, or in $UNBROKEN_DIR, so "
                               "that each run has a place of its own",
                               again.steps.front().step));
    out_.not_seeded = unseeded(straight.steps, again.steps);
    Comparison comparison(straight.steps, out_.not_seeded), same = comparison;
    out_.steps = comparison.last_step();
    same.add(1, again.steps);
    auto difference = same.first_difference(true);
    if (!difference) difference = difference_of_finals(final_again, 1);
    if (difference) {
      tell("undisturbed, again: something else");
      out_.is_deterministic = false;
      out_.difference = std::move(difference);
      out_.again = std::move(again.series);
      return Done{};
    }
    tell("undisturbed, again: the same");
    return killed(straight, comparison);
  }

 private:
  bool is_printed() const { return options_.printed.has_value(); }
  void tell(const std::string& line) const { options_.tell(line); }

  void note_unattached(const LifeEnd& life) {
    std::set<std::string> names;
    for (const TapStep& step : life.steps)
      for (const auto& [name, state] : step.not_attached) names.insert(name);
    out_.not_attached.assign(names.begin(), names.end());
  }

  Result<LifeEnd> live_once(const LifeFiles& files, const std::optional<Kill>& kill, const Series* straight) {
    if (!is_printed()) return live(options_, files, kill, *tap_listener(files));
    UNBROKEN_TRY(const auto listener,
                 printed_listener(*options_.printed, files, options_.keeps_output, straight));
    return live(options_, files, kill, *listener);
  }

  /// Where the command leaves its final state.
  std::string final_path(const LifeFiles& files) const {
    return with_directory(options_.printed->final_state, files.run);
  }

  /// One that was there before the run is not of the run. Errors: as read_final_state().
  Result<TapStep> read_final(const LifeFiles& files, const std::string& stamp_before) const {
    const std::string path = final_path(files);
    if (file_stamp(path) == stamp_before)
      return Error(Code::not_found, fmt::format("{}: the command did not write it", path));
    return read_final_state(path, files.run);
  }

  std::optional<Difference> difference_of_finals(const TapStep& other, std::size_t life) {
    if (!out_.has_final) return std::nullopt;
    out_.final_differs = differing(final_, other);
    Comparison finals({final_});
    finals.add(life, {other});
    auto found = finals.first_difference(true);
    if (found) found->step = out_.steps;
    return found;
  }

  Result<LifeEnd> undisturbed(const std::string& name, TapStep& final_state) {
    const std::string folder = options_.folder + "/" + name;
    UNBROKEN_DO(make_folder(folder));
    const LifeFiles files{folder + "/run", folder + "/life"};
    if (is_printed()) UNBROKEN_DO(make_folder(files.run));
    const std::string stamp = out_.has_final ? file_stamp(final_path(files)) : "";
    UNBROKEN_TRY(LifeEnd life, live_once(files, std::nullopt, nullptr));
    if (life.end.is_signal || life.end.number != 0)
      return Error(Code::bad_argument, fmt::format("the command fails before anything is killed: {}{}",
                                                   text_of(life.end), last_words(files)));
    if (life.steps.empty())
      return Error(
          Code::bad_argument,
          fmt::format("the command never completed a step: {}",
                      is_printed() ? life.why_silent
                                   : "does it train with unbroken.Run, by run.steps() or run.step()? A "
                                     "command without Unbroken needs --loss-regex or --metrics"));
    if (out_.has_final) {
      auto state = read_final(files, stamp);
      if (!state.ok()) {
        const Code code = state.is(Code::unavailable) ? Code::unavailable : Code::bad_argument;
        return Error(code, fmt::format("--final {}", state.error().what()));
      }
      final_state = std::move(state).value();
    }
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
    for (auto end = words.find('\n'); end != std::string::npos; end = words.find('\n', end))
      words.replace(end, 1, " | ");
    return fmt::format("; its last words ({}): {}", files.err(), words);
  }

  StraightRun as_plan(const LifeEnd& straight, const Comparison& comparison) const {
    StraightRun out{.steps = is_printed() ? straight.steps.size() : comparison.last_step(),
                    .points = straight.points,
                    .resume_points = {},
                    .seconds = straight.seconds,
                    .first_step_s = straight.first_step_s};
    if (!is_printed()) out.resume_points = {"open.loaded"};
    return out;
  }

  /// After how many steps the life began, and whether that is a resume.
  void note_beginning(const LifeEnd& life, const RunState& before, const RunState& after, Life& said) const {
    if (life.steps.empty()) {
      if (after.attempts > before.attempts) said.began = after.newest_began;
    } else if (!is_printed()) {
      said.began = life.steps.front().step - 1;
    } else {
      // The step that the undisturbed run printed before.
      const auto first = out_.straight.lower_bound(life.steps.front().step);
      said.began = first == out_.straight.begin() ? 0 : std::prev(first)->first;
      said.is_resumed = first != out_.straight.begin();
    }
    said.is_resumed = said.is_resumed || said.began.value_or(0) > 0;
  }

  void note_kill(const Kill& kill, const LifeEnd& life, Life& said) const {
    said.killed = name_of(kill.by);
    // These two are the library's own; of another command we only know the step.
    const bool is_step = is_printed() && (life.killed_at == kStepPoint || life.killed_at == kCommitPoint);
    if (!life.killed_at.empty() && !is_step)
      said.killed += " at " + life.killed_at;
    else if (said.last)
      said.killed += fmt::format(" at step {}", *said.last);
    if (life.killed_at.starts_with(kTorn)) said.torn_file = life.killed_at.substr(kTorn.size());
  }

  Result<> killed(const LifeEnd& straight, Comparison& comparison) {
    const std::string folder = options_.folder + "/killed";
    UNBROKEN_DO(make_folder(folder));
    const std::string run = folder + "/run";
    if (is_printed()) UNBROKEN_DO(make_folder(run));
    KillPlan plan(options_.at, options_.kills, options_.seed, as_plan(straight, comparison));
    const std::string stamp = out_.has_final ? file_stamp(final_path({run, {}})) : "";
    bool was_killed = false, is_proof = false;
    RunState state;
    PrintedRun printed;
    for (std::size_t number = 1;; ++number) {
      const LifeFiles files{run, fmt::format("{}/life-{:03}", folder, number)};
      const auto kill = plan.next(state.newest_step.value_or(0), state.newest_step.has_value());
      UNBROKEN_TRY(LifeEnd life, live_once(files, kill, &out_.straight));
      const RunState after = is_printed() ? state_after(life, state) : state_of_run(run);
      Life& said = out_.lives.emplace_back();
      note_beginning(life, state, after, said);
      state = after;
      said.steps = life.steps.size();
      if (!life.steps.empty()) said.last = life.steps.back().step;
      said.seconds = life.seconds;

      const bool is_whole = !is_printed() || !life.was_killed || life.completed >= straight.steps.size();
      const bool has_finished = !life.end.is_signal && life.end.number == 0 && is_whole;
      if (said.is_resumed) {
        ++out_.resumes;
        is_proof = is_proof || was_killed;
      }
      const bool is_kill = life.was_killed && !has_finished;
      if (is_kill) {
        plan.count();
        was_killed = true;
        note_kill(*kill, life, said);
      }
      said.ended = has_finished ? "finished" : text_of(life.end);
      out_.kills = plan.kills();
      tell_life(number, said);
      if (is_printed())
        printed.add(number, life.series, is_kill);
      else
        comparison.add(number, life.steps);
      said.series = std::move(life.series);
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
    if (is_printed()) out_.not_seen = printed.compare(out_.straight, out_.has_final, comparison);
    out_.difference = comparison.first_difference(true);
    if (out_.has_final) compare_final({run, {}}, stamp);
    if (!out_.difference && !is_proof)
      return Error(
          Code::bad_argument,
          fmt::format(
              "{} kills prove nothing: no life that was killed was followed by one that resumed above "
              "step 0; the command is too short, or never saves before it is killed",
              out_.kills));
    return Done{};
  }

  /// Without a journal to look into: something is there once a file was closed after a step.
  static RunState state_after(const LifeEnd& life, RunState state) {
    if (life.committed > 0) state.newest_step = std::max(state.newest_step.value_or(0), life.committed);
    return state;
  }

  void compare_final(const LifeFiles& files, const std::string& stamp) {
    const auto state = read_final(files, stamp);
    std::optional<Difference> found;
    if (state.ok())
      found = difference_of_finals(state.value(), out_.lives.size());
    else
      found = Difference{out_.steps, "final", "readable", state.error().what(), out_.lives.size()};
    if (!out_.difference) out_.difference = std::move(found);
  }

  void tell_life(std::size_t number, const Life& said) const {
    const std::string from = !said.began        ? "ended before it began"
                             : !said.is_resumed ? "from the start"
                                                : fmt::format("from step {}", *said.began);
    const std::string to = said.steps == 0 ? "" : fmt::format(", completed {} steps", said.steps);
    const std::string end = said.killed.empty()       ? said.ended
                            : said.ended == "SIGKILL" ? said.killed
                                                      : fmt::format("{} ({})", said.killed, said.ended);
    tell(fmt::format("life {}: {}{}, {}", number, from, to, end));
  }

  const DrillOptions& options_;
  DrillResult& out_;
  TapStep final_;
};

}  // namespace

Result<> run_drill(const DrillOptions& options, DrillResult& out) {
  UNBROKEN_DO(Drill(options, out).run());
  UNBROKEN_TRY(out.forgotten, find_forgotten(options, out));
  return Done{};
}

}  // namespace unbroken
