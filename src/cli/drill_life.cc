#include "cli/drill_life.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "cli/interrupts.h"
#include "cli/look.h"
#include "engine/reader.h"
#include "os/os_clock.h"
#include "os/user/user_file.h"
#include "os/user/work_folder.h"

namespace unbroken {

namespace {

constexpr Duration kPoll = std::chrono::milliseconds(2);
constexpr Duration kLook = std::chrono::milliseconds(20);    // between two looks at the run's journal
constexpr Duration kFrozen = std::chrono::milliseconds(50);  // a stopped life stays so, then it is killed
constexpr Duration kTermLimit = std::chrono::minutes(10);    // a step and a save fit in here

/// Nothing of an outer run, drill or scheduler reaches the command.
std::vector<std::pair<std::string, std::optional<std::string>>> environment(const LifeFiles& files,
                                                                            const std::optional<Kill>& kill) {
  std::vector<std::pair<std::string, std::optional<std::string>>> env{
      {"UNBROKEN_DIR", files.run},
      {"UNBROKEN_TAP", files.tap()},
      {"UNBROKEN_POINT_LOG", files.points()},
      {"UNBROKEN_KILL", std::nullopt},
      {"UNBROKEN_TAKEOVER", std::nullopt},
      {"UNBROKEN_RESUMED", std::nullopt},
      {"SLURM_RESTART_COUNT", std::nullopt},
      {"TORCHELASTIC_RESTART_COUNT", std::nullopt}};
  if (!kill || kill->point.empty()) return env;
  const std::string_view how = kill->by == KillBy::kill ? "kill" : kill->by == KillBy::term ? "term" : "stop";
  for (auto& [name, value] : env)
    if (name == "UNBROKEN_KILL") value = fmt::format("{}:{}:{}", kill->point, kill->pass, how);
  return env;
}

/// Watches one life and kills it as planned.
class Watch {
 public:
  Watch(Child child, const LifeFiles& files, const std::optional<Kill>& kill)
      : child_(std::move(child)), files_(files), kill_(kill), tap_(files.tap()), points_(files.points()) {}

  Result<LifeEnd> until_it_ends() {
    for (;;) {
      const auto end = child_.wait(kPoll);
      const Instant now = clock_.now();
      look(now);
      if (end) {
        out_.end = *end;
        out_.seconds = seconds_of(now - began_);
        break;
      }
      if (Interrupts::has_come()) return Error(Code::stopped, "interrupted");
      if (kill_ && !out_.was_killed) {
        if (is_due(now)) strike(now);
      } else if (out_.was_killed && now >= finish_off_at_) {
        child_.send(Child::Signal::kill);
      }
    }
    auto text = read_user_file(files_.tap(), std::size_t{4} << 30);
    if (text.ok()) {
      auto steps = parse_tap(text.value());
      if (!steps.ok()) return std::move(steps).error().with(files_.tap());
      out_.steps = std::move(steps).value();
    }
    return std::move(out_);
  }

 private:
  void look(Instant now) {
    for (const std::string& line : tap_.lines()) {
      newest_ = std::max(newest_, step_of_tap_line(line));
      if (!first_step_at_) {
        first_step_at_ = now;
        out_.first_step_s = seconds_of(now - began_);
      }
    }
    for (std::string& line : points_.lines()) {
      const std::uint64_t pass = ++passes_[line];
      if (kill_ && kill_->point == line && kill_->pass == pass) note_strike(now, kill_->point);
      out_.points.push_back(std::move(line));
    }
  }

  bool is_due(Instant now) {
    if (kill_->step > 0) {
      if (newest_ < kill_->step) return false;
    } else if (kill_->is_from_start) {
      return seconds_of(now - began_) >= kill_->delay_s;
    } else if (!first_step_at_ || seconds_of(now - *first_step_at_) < kill_->delay_s) {
      return false;
    }
    // Where nothing is committed yet the next life would prove nothing.
    if (has_checkpoint_ || now < look_again_at_) return has_checkpoint_;
    look_again_at_ = now + kLook;
    has_checkpoint_ = state_of_run(files_.run).newest_step.has_value();
    return has_checkpoint_;
  }

  void strike(Instant now) {
    child_.send(kill_->by == KillBy::kill   ? Child::Signal::kill
                : kill_->by == KillBy::term ? Child::Signal::term
                                            : Child::Signal::stop);
    note_strike(now, {});
  }

  /// A stopped one is killed soon; one that was asked to end may take its time.
  void note_strike(Instant now, const std::string& where) {
    if (out_.was_killed) return;
    out_.was_killed = true;
    out_.killed_at = where;
    finish_off_at_ = now + (kill_->by == KillBy::term ? kTermLimit : kFrozen);
  }

  Child child_;
  const LifeFiles& files_;
  const std::optional<Kill>& kill_;
  OsClock clock_;
  FileTail tap_, points_;
  const Instant began_ = clock_.now();
  std::optional<Instant> first_step_at_;
  Instant finish_off_at_{}, look_again_at_{};
  std::uint64_t newest_ = 0;
  std::map<std::string, std::uint64_t> passes_;
  bool has_checkpoint_ = false;
  LifeEnd out_;
};

}  // namespace

std::string text_of(const Child::End& end) {
  if (!end.is_signal) return fmt::format("status {}", end.number);
  return end.number == SIGKILL   ? "SIGKILL"
         : end.number == SIGTERM ? "SIGTERM"
                                 : fmt::format("signal {}", end.number);
}

RunState state_of_run(const std::string& directory) {
  RunState out;
  const auto look = look_at(directory);
  if (!look.ok()) return out;
  const History& history = look.value().history();
  out.attempts = history.attempts().size();
  if (const Attempt* newest = history.newest_attempt(); newest != nullptr && newest->open.resume)
    out.newest_began = newest->open.resume->step;
  if (const Checkpoint* newest = history.newest()) out.newest_step = newest->commit.save.step;
  return out;
}

Result<LifeEnd> live(const DrillOptions& options, const LifeFiles& files, const std::optional<Kill>& kill) {
  auto child = Child::start({.command = options.command,
                             .env = environment(files, kill),
                             .stdout_file = options.keeps_output ? files.out() : "",
                             .stderr_file = options.keeps_output ? files.err() : ""});
  if (!child.ok()) {
    const bool is_ours = child.is(Code::no_space);
    return Error(is_ours ? Code::no_space : Code::bad_argument,
                 fmt::format("the command cannot be started: {}", child.error().what()));
  }
  return Watch(std::move(child).value(), files, kill).until_it_ends();
}

}  // namespace unbroken
