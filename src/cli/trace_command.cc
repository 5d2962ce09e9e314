// `unbroken trace`: the lives and saves of a run as a timeline, in the Trace Event Format that Perfetto
// (ui.perfetto.dev) and chrome://tracing show. Source of the format: "Trace Event Format", Google, 2016.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look.h"
#include "engine/pace/timeline.h"

namespace unbroken {

namespace {

enum Row : int { kLife = 1, kTraining, kCopy, kWrite, kReadBack };
constexpr std::pair<Row, const char*> kRows[] = {{kLife, "life"},
                                                 {kTraining, "training"},
                                                 {kCopy, "copied while training went on"},
                                                 {kWrite, "until durable"},
                                                 {kReadBack, "read back"}};

double us(double seconds) {
  return seconds * 1e6;
}

/// The events of one run; an attempt is a process of it.
class Trace {
 public:
  explicit Trace(std::int64_t began_unix_ms) : began_unix_ms_(began_unix_ms) {}

  /// Seconds since the run began.
  double at(std::int64_t unix_ms) const { return static_cast<double>(unix_ms - began_unix_ms_) / 1e3; }

  void name_rows(const Attempt& attempt) {
    const std::uint32_t number = attempt.open.attempt;
    const std::string name = fmt::format("attempt {} on {}", number, attempt.open.owner.host);
    name_it("process_name", number, 0, name);
    for (const auto& [row, text] : kRows) name_it("thread_name", number, row, text);
  }
  /// None that is shorter than nothing: a wall clock may have been set back.
  void span(std::uint32_t attempt, Row row, std::string name, double begin_s, double end_s,
            Json more = Json::object()) {
    if (end_s <= begin_s) return;
    events_.push_back({{"ph", "X"},
                       {"pid", attempt},
                       {"tid", row},
                       {"name", std::move(name)},
                       {"ts", us(begin_s)},
                       {"dur", us(end_s - begin_s)},
                       {"args", std::move(more)}});
  }
  void instant(std::uint32_t attempt, std::string name, double at_s) {
    events_.push_back({{"ph", "i"},
                       {"s", "p"},
                       {"pid", attempt},
                       {"tid", static_cast<int>(kLife)},
                       {"name", std::move(name)},
                       {"ts", us(at_s)}});
  }
  Json take() { return std::move(events_); }

 private:
  void name_it(const char* what, std::uint32_t attempt, int row, const std::string& name) {
    events_.push_back(
        {{"ph", "M"}, {"pid", attempt}, {"tid", row}, {"name", what}, {"args", {{"name", name}}}});
  }

  std::int64_t began_unix_ms_;
  Json events_ = Json::array();
};

void add_save(Trace& trace, const SavedTimes& times) {
  const std::uint32_t attempt = times.save.attempt;
  const std::string name = times.save.name();
  const double stopped_s = trace.at(times.at_unix_ms);
  const double went_on_s = stopped_s + times.wait_s;
  const Json sizes{{"bytes", times.bytes}, {"later_bytes", times.later_bytes}};
  Json written = sizes;
  written["cpu_s"] = json_number(times.cpu_s);
  trace.span(attempt, kTraining, "waits for " + name, stopped_s, went_on_s, sizes);
  if (times.later_bytes > 0) trace.span(attempt, kCopy, name, went_on_s, went_on_s + times.staged_s, sizes);
  trace.span(attempt, kWrite, name, went_on_s, went_on_s + times.durable_s, written);
  trace.span(attempt, kReadBack, name, went_on_s + times.durable_s, went_on_s + times.verified_s, sizes);
}

/// When the loop stood at a step. What the last step that was saved led to is not known.
void add_training(Trace& trace, const Attempt& attempt, const std::vector<SavedTimes>& saves) {
  std::uint64_t step = attempt.open.resume ? attempt.open.resume->step : 0;
  double from_s = trace.at(attempt.at_unix_ms);
  for (const SavedTimes& times : saves) {
    if (times.save.step > step)
      trace.span(attempt.open.attempt, kTraining, fmt::format("steps {} to {}", step + 1, times.save.step),
                 from_s, trace.at(times.at_unix_ms));
    step = times.save.step;
    from_s = trace.at(times.at_unix_ms) + times.wait_s;
  }
}

void add_attempt(Trace& trace, const Look& look, const Attempt& attempt) {
  const std::uint32_t number = attempt.open.attempt;
  trace.name_rows(attempt);
  const std::string from = attempt.open.resume ? "from " + attempt.open.resume->name() : "from the beginning";
  double last_s = trace.at(attempt.last_sign_unix_ms);
  const auto saves = read_timeline(look.seams(), number, attempt.slot, look.by());
  std::set<SaveId> timed;
  for (const SavedTimes& times : saves) {
    add_save(trace, times);
    timed.insert(times.save);
    last_s = std::max(last_s, trace.at(times.at_unix_ms) + times.wait_s + times.verified_s);
  }
  add_training(trace, attempt, saves);
  for (const Checkpoint& c : look.history().checkpoints())
    if (c.commit.save.attempt == number && !timed.contains(c.commit.save))
      trace.instant(number, c.commit.save.name(), trace.at(c.at_unix_ms));
  trace.span(number, kLife, from, trace.at(attempt.at_unix_ms), last_s, {{"commits", attempt.commits}});
}

Result<> trace_run(const std::string& directory) {
  UNBROKEN_TRY(const Look look, look_at(directory));
  const auto& attempts = look.history().attempts();
  const std::int64_t began_unix_ms = attempts.empty() ? 0 : attempts.front().at_unix_ms;
  Trace trace(began_unix_ms);
  for (const Attempt& attempt : attempts) add_attempt(trace, look, attempt);
  return print_json(
      {{"traceEvents", trace.take()},
       {"displayTimeUnit", "ms"},
       {"otherData", {{"run", look.history().genesis()->run}, {"began_unix_ms", began_unix_ms}}}});
}

}  // namespace

int trace_command(int argc, char** argv) {
  CLI::App app("The lives and saves of a run as a timeline, for ui.perfetto.dev or chrome://tracing",
               "unbroken trace");
  std::string directory;
  bool is_json = false;
  app.add_option("DIR", directory, "the run's directory")->required();
  app.add_flag("--json", is_json, "an error is one JSON object too; the timeline always is");
  return run_command(app, argc, argv, [&]() -> Result<int> {
    UNBROKEN_DO(trace_run(directory));
    return 0;
  });
}

}  // namespace unbroken
