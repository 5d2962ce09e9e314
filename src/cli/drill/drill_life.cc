#include "cli/drill/drill_life.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "cli/drill/listen.h"
#include "cli/interrupts.h"
#include "cli/look.h"
#include "engine/read/reader.h"
#include "os/os_clock.h"
#include "os/os_process.h"

namespace unbroken {

namespace {

constexpr Duration kPoll = std::chrono::milliseconds(2);
constexpr Duration kFrozen = std::chrono::milliseconds(50);  // a stopped life stays so, then it is killed
constexpr Duration kTermLimit = std::chrono::minutes(10);    // a step and a save fit in here
constexpr std::size_t kPointsMax = 4'000'000;                // of one life that are kept

/// Nothing of an outer run, drill or scheduler reaches the command.
std::vector<std::pair<std::string, std::optional<std::string>>> environment(const LifeFiles& files) {
  std::vector<std::pair<std::string, std::optional<std::string>>> out{
      {"UNBROKEN_DIR", files.run},           {"UNBROKEN_TAP", std::nullopt},
      {"UNBROKEN_POINT_LOG", std::nullopt},  {"UNBROKEN_KILL", std::nullopt},
      {"UNBROKEN_TAKEOVER", std::nullopt},   {"UNBROKEN_RESUMED", std::nullopt},
      {"SLURM_RESTART_COUNT", std::nullopt}, {"TORCHELASTIC_RESTART_COUNT", std::nullopt}};
  if (files.witness.empty()) return out;
  const std::string others = OsProcess().env("PYTHONPATH").value_or("");
  out.emplace_back("PYTHONPATH", files.witness + (others.empty() ? "" : ":" + others));
  return out;
}

/// Watches one life and kills it as planned.
class Watch {
 public:
  Watch(Child child, Listener& listener, const std::optional<Kill>& kill)
      : child_(std::move(child)), listener_(listener), kill_(kill) {}

  Result<LifeEnd> until_it_ends() {
    for (bool is_over = false; !is_over;) {
      listener_.wait(child_, kPoll);
      const auto end = child_.wait(Duration{});
      const Instant now = clock_.now();
      is_over = end.has_value();
      UNBROKEN_DO(look(now, is_over));
      if (is_over) {
        out_.end = *end;
        out_.seconds = seconds_of(now - began_);
        break;
      }
      if (Interrupts::has_come()) return Error(Code::stopped, "interrupted");
      if (kill_ && !out_.was_killed) {
        if (is_due(now)) strike(now, {});
      } else if (out_.was_killed && now >= finish_off_at_) {
        child_.send(Child::Signal::kill);
      }
    }
    out_.completed = listener_.completed();
    UNBROKEN_DO(listener_.finish(out_));
    return std::move(out_);
  }

 private:
  Result<> look(Instant now, bool is_over) {
    std::vector<std::string> points;
    UNBROKEN_DO(listener_.look(child_, is_over, points));
    if (!first_step_at_ && listener_.completed() > 0) {
      first_step_at_ = now;
      out_.first_step_s = seconds_of(now - began_);
    }
    for (std::string& point : points) {
      const std::uint64_t pass = ++passes_[point];
      if (kill_ && kill_->point == point && kill_->pass == pass && !out_.was_killed) {
        if (listener_.is_killed_by_itself())
          note_strike(now, point);
        else if (!is_over)
          strike(now, point);
      }
      if (out_.points.size() < kPointsMax) out_.points.push_back(std::move(point));
    }
    return Done{};
  }

  bool is_due(Instant now) {
    if (kill_->step > 0) {
      if (listener_.completed() < kill_->step) return false;
    } else if (kill_->is_from_start) {
      return seconds_of(now - began_) >= kill_->delay_s;
    } else if (!first_step_at_ || seconds_of(now - *first_step_at_) < kill_->delay_s) {
      return false;
    }
    // Where nothing is committed yet the next life would prove nothing.
    return listener_.has_checkpoint();
  }

  void strike(Instant now, const std::string& where) {
    child_.send(kill_->by == KillBy::kill   ? Child::Signal::kill
                : kill_->by == KillBy::term ? Child::Signal::term
                                            : Child::Signal::stop);
    note_strike(now, where);
  }

  /// A stopped one is killed soon; one that was asked to end may take its time.
  void note_strike(Instant now, const std::string& where) {
    if (out_.was_killed) return;
    out_.was_killed = true;
    out_.killed_at = where;
    finish_off_at_ = now + (kill_->by == KillBy::term ? kTermLimit : kFrozen);
  }

  Child child_;
  Listener& listener_;
  const std::optional<Kill>& kill_;
  OsClock clock_;
  const Instant began_ = clock_.now();
  std::optional<Instant> first_step_at_;
  Instant finish_off_at_{};
  std::map<std::string, std::uint64_t> passes_;
  LifeEnd out_;
};

}  // namespace

std::string with_directory(std::string_view text, std::string_view directory) {
  constexpr std::string_view kName = "{dir}";
  std::string out;
  for (std::size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName)) {
    out += text.substr(0, at);
    out += directory;
    text.remove_prefix(at + kName.size());
  }
  return out += text;
}

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

Result<LifeEnd> live(const DrillOptions& options, const LifeFiles& files, const std::optional<Kill>& kill,
                     Listener& listener) {
  ChildOptions how{.command = {},
                   .env = environment(files),
                   .stdout_file = options.keeps_output ? files.out() : "",
                   .stderr_file = options.keeps_output ? files.err() : ""};
  for (const std::string& word : options.command) how.command.push_back(with_directory(word, files.run));
  for (auto& entry : listener.environment(kill)) how.env.push_back(std::move(entry));
  listener.prepare(how);
  auto child = Child::start(how);
  if (!child.ok()) {
    const bool is_ours = child.is(Code::no_space);
    return Error(is_ours ? Code::no_space : Code::bad_argument,
                 fmt::format("the command cannot be started: {}", child.error().what()));
  }
  return Watch(std::move(child).value(), listener, kill).until_it_ends();
}

}  // namespace unbroken
