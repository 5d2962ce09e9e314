#include "cli/simulate_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "cli/plan_flags.h"
#include "os/os_clock.h"
#include "os/os_executor.h"

namespace unbroken {

namespace {

constexpr double kNodesMax = 10'000'000;
constexpr std::uint64_t kSeedsMax = 1'000'000;
constexpr unsigned kThreadsMax = 256;

Error refuse_flag(std::string_view flag, std::string why) {
  return Error(Code::bad_argument, fmt::format("--{}: {}", flag, why));
}

Result<std::uint64_t> whole(std::string_view flag, const std::string& text, std::uint64_t min,
                            std::uint64_t max) {
  const auto value = parse_u64(text, max);
  if (value.ok() && value.value() >= min) return value.value();
  return refuse_flag(flag, fmt::format("\"{}\" is not a whole number from {} to {}", text, min, max));
}

Result<double> number(std::string_view flag, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value)) return value;
  return refuse_flag(flag, fmt::format("\"{}\" is not a number", text));
}

/// What means nothing without another flag.
Result<> belongs_to(const std::string& text, std::string_view flag, const std::string& other,
                    std::string_view to) {
  if (!text.empty() && other.empty()) return refuse_flag(flag, fmt::format("belongs to --{}", to));
  return Done{};
}

/// One line that is written over, on a terminal only.
class JobsDone {
 public:
  explicit JobsDone(std::size_t count, const Clock& clock)
      : count_(count), clock_(clock), begin_(clock.now()), is_shown_(isatty(STDERR_FILENO) == 1) {}
  ~JobsDone() {
    if (is_drawn_) fmt::print(stderr, "\r\x1b[K");
  }
  void draw(std::size_t done) {
    if (!is_shown_ || done == 0) return;
    const double took_s = seconds_of(clock_.now() - begin_);
    const double rate = static_cast<double>(done) / std::max(took_s, 1e-9);
    const auto bars = static_cast<int>(30 * done / count_);
    fmt::print(stderr, "\r\x1b[K[{:<30}] {} of {} seeds, {:.1f} a second, {} left",
               std::string(static_cast<std::size_t>(bars), '#'), done, count_, rate,
               format_duration(static_cast<double>(count_ - done) / rate));
    is_drawn_ = true;
  }

 private:
  std::size_t count_;
  const Clock& clock_;
  Instant begin_;
  bool is_shown_;
  bool is_drawn_ = false;
};

/// Spreads work over the compute lane; each worker takes the next index until there is none.
class Spread {
 public:
  Spread(Executor& executor, const Clock& clock) : executor_(executor), clock_(clock) {}

  void operator()(std::size_t count, const std::function<void(std::size_t)>& work) {
    std::atomic<std::size_t> next{0}, done{0}, running{0};
    const auto worker = [&] {
      for (std::size_t i; (i = next.fetch_add(1)) < count;) {
        work(i);
        done.fetch_add(1);
      }
      running.fetch_sub(1);
      executor_.notify();
    };
    for (unsigned i = 0; i < executor_.width(Lane::compute); ++i) {
      running.fetch_add(1);
      if (!executor_.post(Lane::compute, worker)) running.fetch_sub(1);
    }
    JobsDone progress(count, clock_);
    while (running.load() > 0) {
      // Late means: time to draw.
      const auto waited = executor_.wait([&] { return running.load() == 0; },
                                         {clock_.now() + std::chrono::milliseconds(200), {}});
      if (!waited.ok()) progress.draw(done.load());
    }
    for (std::size_t i; (i = next.fetch_add(1)) < count;) work(i);  // where no worker could be had
  }

 private:
  Executor& executor_;
  const Clock& clock_;
};

}  // namespace

SimulateFlags::SimulateFlags(CLI::App& app) {
  app.add_option("--seeds", seeds_, "how many runs (20)")->type_name("N");
  app.add_option("--seed", seed_, "the first of them (1)")->type_name("S");
  app.add_option("--law", law_, "exponential or weibull: how long a node lives")->type_name("LAW");
  app.add_option("--shape", shape_, "of Weibull: below 1 nodes die young")->type_name("K")->check(not_empty);
  app.add_option("--trace", trace_,
                 "lives from a CSV: time_s (when each ended), perhaps recovery_s and interval_s")
      ->type_name("FILE.csv")
      ->check(not_empty);
  app.add_option("--correlated", correlated_,
                 "share of the failures that only the safest tier survives, as of a rack (0)")
      ->type_name("F");
  app.add_option("--stragglers", stragglers_, "nodes that become slow, per 1,000 node-days (0)")
      ->type_name("X")
      ->check(not_empty);
  app.add_option("--straggler-slowdown", slowdown_, "share of the speed lost while one is there (0.3)")
      ->type_name("S")
      ->check(not_empty);
  app.add_option("--straggler-lasts", lasts_, "until it is found and replaced (1h)")
      ->type_name("D")
      ->check(not_empty);
  app.add_option("--slow-writes", slow_writes_, "share of the saves in which one writer is slow (0)")
      ->type_name("F")
      ->check(not_empty);
  app.add_option("--slow-write-factor", slow_factor_, "how many times as long such a save persists (5)")
      ->type_name("X")
      ->check(not_empty);
  app.add_option("--first-save", first_save_, "each life saves after its first step, which takes so long")
      ->type_name("D")
      ->check(not_empty);
  app.add_option("--first-stall", first_stall_, "how long that save blocks the loop (as any other)")
      ->type_name("D")
      ->check(not_empty);
  app.add_option("--threads", threads_, "seeds that run at once (1)")->type_name("N");
}

Result<FailureLaw> SimulateFlags::law() const {
  FailureLaw out;
  if (law_ == "weibull") {
    out.kind = FailureLaw::Kind::weibull;
    if (shape_.empty()) return refuse_flag("law", "weibull needs --shape, for example 0.7");
  } else if (law_ != "exponential") {
    return refuse_flag("law", fmt::format("\"{}\" is neither exponential nor weibull", law_));
  } else if (!shape_.empty()) {
    return refuse_flag("shape", "belongs to --law weibull");
  }
  if (!shape_.empty()) {
    UNBROKEN_TRY(out.shape, number("shape", shape_));
    if (!(out.shape >= 0.1 && out.shape <= 100))
      return refuse_flag("shape", fmt::format("{} is not from 0.1 to 100", out.shape));
  }
  UNBROKEN_TRY(out.correlated, number("correlated", correlated_));
  if (!(out.correlated >= 0 && out.correlated < 1))
    return refuse_flag("correlated",
                       fmt::format("{} is not a share from 0 up to, but without, 1", out.correlated));
  if (trace_.empty()) return out;
  if (law_ != "exponential") return refuse_flag("trace", "takes the place of --law: give one");
  out.kind = FailureLaw::Kind::trace;
  UNBROKEN_TRY(const std::string text, read_file_of("--trace", trace_));
  UNBROKEN_TRY(out.trace, parse_trace(text));
  return out;
}

Result<Stragglers> SimulateFlags::stragglers() const {
  Stragglers out;
  const auto within = [](std::string_view flag, const std::string& text, double min, double max,
                         double& into) -> Result<> {
    if (text.empty()) return Done{};
    UNBROKEN_TRY(into, number(flag, text));
    if (into >= min && into <= max) return Done{};
    return refuse_flag(flag, fmt::format("{} is not from {:.3g} to {:.3g}", text, min, max));
  };
  UNBROKEN_DO(belongs_to(slowdown_, "straggler-slowdown", stragglers_, "stragglers"));
  UNBROKEN_DO(belongs_to(lasts_, "straggler-lasts", stragglers_, "stragglers"));
  UNBROKEN_DO(belongs_to(slow_factor_, "slow-write-factor", slow_writes_, "slow-writes"));
  UNBROKEN_DO(within("stragglers", stragglers_, 0, 1e6, out.per_1000_node_days));
  UNBROKEN_DO(within("straggler-slowdown", slowdown_, 0, 0.99, out.slowdown));
  UNBROKEN_DO(within("slow-writes", slow_writes_, 0, 1, out.write_share));
  UNBROKEN_DO(within("slow-write-factor", slow_factor_, 1, 1e6, out.write_factor));
  if (lasts_.empty()) return out;
  UNBROKEN_TRY(out.lasts_s, parse_duration_s(lasts_, "--straggler-lasts"));
  if (!std::isfinite(out.lasts_s) || out.lasts_s <= 0)
    return refuse_flag("straggler-lasts", fmt::format("\"{}\" is not above 0 and finite", lasts_));
  return out;
}

Result<std::optional<FirstSave>> SimulateFlags::first(const SavePlan& saves) const {
  UNBROKEN_DO(belongs_to(first_stall_, "first-stall", first_save_, "first-save"));
  if (first_save_.empty()) return std::optional<FirstSave>();
  const auto finite = [](std::string_view flag, const std::string& text) -> Result<double> {
    UNBROKEN_TRY(const double value, parse_duration_s(text, fmt::format("--{}", flag)));
    if (std::isfinite(value) && value >= 0) return value;
    return refuse_flag(flag, fmt::format("\"{}\" is not from 0 on and finite", text));
  };
  FirstSave out{0, saves.times.stall_s};
  UNBROKEN_TRY(out.work_s, finite("first-save", first_save_));
  if (first_stall_.empty()) return std::optional(out);
  UNBROKEN_TRY(out.stall_s, finite("first-stall", first_stall_));
  return std::optional(out);
}

Result<SimulationRun> SimulateFlags::run(const JobInputs& job, const SavePlan& saves) const {
  UNBROKEN_TRY(const std::uint64_t seeds, whole("seeds", seeds_, 1, kSeedsMax));
  UNBROKEN_TRY(const std::uint64_t seed, whole("seed", seed_, 0, UINT64_MAX));
  UNBROKEN_TRY(const std::uint64_t threads, whole("threads", threads_, 1, kThreadsMax));
  if (job.nodes > kNodesMax)
    return refuse_flag("gpus", fmt::format("{:.0f} nodes are more than can be drawn one by one ({:.0f})",
                                           job.nodes, kNodesMax));
  SimulationRun out{{job, saves, {}, {}, {}}, {}, 0};
  UNBROKEN_TRY(out.simulation.law, law());
  UNBROKEN_TRY(out.simulation.stragglers, stragglers());
  UNBROKEN_TRY(out.simulation.first, first(saves));

  const OsClock clock;
  const Instant begin = clock.now();
  UNBROKEN_TRY(const auto executor,
               OsExecutor::start({.io_threads = 1, .compute_threads = static_cast<unsigned>(threads)}));
  out.result = simulate(out.simulation, seed, seeds, Spread(*executor, clock));
  out.elapsed_s = seconds_of(clock.now() - begin);
  return out;
}

}  // namespace unbroken
