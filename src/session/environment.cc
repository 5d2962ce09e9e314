#include "session/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "base/text.h"
#include "os/os_points.h"
#include "os/user/user_path.h"

namespace unbroken {

namespace {

constexpr std::size_t kShownBytes = 200;

/// Every UNBROKEN_POINT of the library, sorted.
constexpr std::array<std::string_view, 30> kPoints{"collect.before_fold",
                                                   "collect.before_remove",
                                                   "collect.intended",
                                                   "commit.before_append",
                                                   "commit.before_manifest",
                                                   "commit.before_receipt",
                                                   "commit.before_write",
                                                   "commit.done",
                                                   "filestore.after_dir_sync",
                                                   "filestore.after_link",
                                                   "filestore.after_sync",
                                                   "filestore.before_dir_sync",
                                                   "filestore.before_link",
                                                   "filestore.before_sweep",
                                                   "filestore.before_sync",
                                                   "filestore.before_unlink",
                                                   "journal.after_create",
                                                   "journal.after_sync",
                                                   "journal.appended",
                                                   "journal.before_create",
                                                   "journal.before_fold",
                                                   "open.appended",
                                                   "open.before_append",
                                                   "open.loaded",
                                                   "save.after_snapshot",
                                                   "save.before_snapshot",
                                                   "save.streaming",
                                                   "void.after_create",
                                                   "void.appended",
                                                   "void.before_create"};
constexpr std::string_view kBoundaryPoint = "step.boundary";

Error refused(std::string why) {
  return Error(Code::bad_argument, std::move(why));
}

Result<> check_steps(const std::string& value) {
  if (parse_u64(trim_zeros(value)).ok()) return Done{};
  return refused("not a number of steps");
}

Result<> check_restarts(const std::string& value) {
  if (parse_u64(trim_zeros(value)).ok()) return Done{};
  return refused("not a number of restarts");
}

Result<> check_flag(const std::string& value) {
  if (value == "0" || value == "1") return Done{};
  return refused("it may be 1 or 0, or not set");
}

Result<> check_time_above_zero(const std::string& value) {
  UNBROKEN_TRY(const double seconds, parse_duration_s(value, "a duration"));
  if (seconds >= 1e-9) return Done{};
  return refused("a time above zero is needed, a nanosecond at least");
}

Result<> check_io(const std::string& value) {
  if (value == "auto" || value == "io_uring" || value == "threads" || value == "buffered") return Done{};
  return refused("none of auto, io_uring, threads, buffered");
}

Result<> check_io_class(const std::string& value) {
  if (value == "normal" || value == "low" || value == "idle") return Done{};
  return refused("none of normal, low, idle");
}

Result<> check_kill(const std::string& value) {
  UNBROKEN_DO(check_kill_plan(value));
  const std::string_view point = split(value, ':').front();
  if (point == kBoundaryPoint || std::find(kPoints.begin(), kPoints.end(), point) != kPoints.end())
    return Done{};
  return refused(
      fmt::format("there is no such point; there are {} and {}", fmt::join(kPoints, ", "), kBoundaryPoint));
}

Result<> check_directory(const std::string& value) {
  if (!is_there(value) || is_user_folder(value)) return Done{};
  return refused("what stands there is no directory");
}

struct Variable {
  const char* name;
  const char* example;
  Result<> (*check)(const std::string& value);
};

constexpr std::array<Variable, 13> kVariables{{
    {"SLURM_RESTART_COUNT", "1", check_restarts},
    {"TORCHELASTIC_RESTART_COUNT", "1", check_restarts},
    {"UNBROKEN_STEPS", "100", check_steps},
    {"UNBROKEN_DIR", "runs/first", check_directory},
    {"UNBROKEN_RESUMED", "1", check_flag},
    {"UNBROKEN_TAKEOVER", "1", check_flag},
    {"UNBROKEN_MTTI", "4h", check_time_above_zero},
    {"UNBROKEN_PIN_LASTS", "5min", check_time_above_zero},
    {"UNBROKEN_IO", "auto", check_io},
    {"UNBROKEN_IO_CLASS", "idle", check_io_class},
    {"UNBROKEN_KILL", "commit.before_append:1:kill", check_kill},
    {"UNBROKEN_POINT_LOG", "/tmp/points.log", check_can_append},
    {"UNBROKEN_TAP", "/tmp/tap.jsonl", check_can_append_plainly},
}};

std::optional<std::string> value_of(const Process& process, const char* name) {
  auto value = process.env(name);
  if (value && value->empty()) value.reset();
  return value;
}

/// For a message: short, and of letters that any terminal shows.
std::string shown(std::string value) {
  if (value.size() > kShownBytes) value = value.substr(0, kShownBytes) + "...";
  for (char& c : value)
    if (c < ' ' || c > '~') c = '?';
  return value;
}

}  // namespace

Result<> check_environment(const Process& process) {
  for (const Variable& variable : kVariables) {
    const auto value = value_of(process, variable.name);
    if (!value) continue;
    const auto fine = variable.check(*value);
    if (fine.ok()) continue;
    return Error(Code::bad_argument,
                 fmt::format("{} is '{}': {}: give it as {}={}", variable.name, shown(*value),
                             fine.error().what(), variable.name, variable.example))
        .next(fmt::format("unset {}", variable.name));
  }
  return Done{};
}

Result<> use_environment(const Process& process) {
  UNBROKEN_DO(check_environment(process));
  static std::mutex mutex;
  static bool is_installed = false;
  const std::lock_guard lock(mutex);
  if (is_installed || (!value_of(process, "UNBROKEN_KILL") && !value_of(process, "UNBROKEN_POINT_LOG")))
    return Done{};
  UNBROKEN_DO(install_points(process));
  is_installed = true;
  return Done{};
}

Duration pin_lasts(const Process& process) {
  const auto value = value_of(process, "UNBROKEN_PIN_LASTS");
  const auto seconds = parse_duration_s(value.value_or(""), "");
  if (!seconds.ok()) return kPinLasts;
  const std::chrono::duration<double> lasts(std::min(seconds.value(), 1e9));
  return std::chrono::duration_cast<Duration>(lasts);
}

WriteEngine write_engine(const Process& process) {
  const auto value = value_of(process, "UNBROKEN_IO").value_or("auto");
  if (value == "io_uring") return WriteEngine::ring;
  return value == "buffered" ? WriteEngine::buffered : WriteEngine::threads;
}

IoClass io_class(const Process& process) {
  const auto value = value_of(process, "UNBROKEN_IO_CLASS").value_or("normal");
  if (value == "idle") return IoClass::idle;
  return value == "low" ? IoClass::low : IoClass::normal;
}

std::optional<std::uint64_t> steps_cap(const Process& process) {
  const auto value = value_of(process, "UNBROKEN_STEPS");
  if (!value) return std::nullopt;
  const auto steps = parse_u64(trim_zeros(*value));
  return steps.ok() ? std::optional(steps.value()) : std::nullopt;
}

}  // namespace unbroken
