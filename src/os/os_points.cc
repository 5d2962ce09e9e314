#include "os/os_points.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/point.h"
#include "base/text.h"
#include "os/descriptor.h"
#include "os/fork_guard.h"

namespace unbroken {
namespace {

struct Plan {
  std::string name = {};
  std::uint64_t pass = 0;
  int signal = 0;
};

/// Lives as long as the process: a hook may be running at any time.
struct Points {
  Plan plan;
  Descriptor log;
  ForkGuard guard;
  std::atomic<std::uint64_t> passes{0};
  const Points* before = nullptr;
};

std::atomic<Points*> installed{nullptr};

void pass(const char* name) {
  Points* const points = installed.load(std::memory_order_acquire);
  if (points == nullptr || points->guard.is_child()) return;
  if (points->log.get() >= 0) {
    const std::string line = fmt::format("{}\n", name);
    // One call, so that lines of several threads and processes stay whole. A lost line is only a lost line.
    static_cast<void>(!::write(points->log.get(), line.data(), line.size()));
  }
  if (points->plan.signal == 0 || points->plan.name != name) return;
  if (points->passes.fetch_add(1, std::memory_order_relaxed) + 1 == points->plan.pass)
    ::kill(::getpid(), points->plan.signal);
}

Result<Plan> parse_plan(const std::string& text) {
  const auto bad = [&] { return Error(Code::bad_argument, "expected POINT:PASS:kill|term|stop"); };
  const auto parts = split(text, ':');
  if (parts.size() != 3 || parts[0].empty()) return bad();
  const auto nth = parse_u64(parts[1]);
  if (!nth.ok() || nth.value() == 0) return bad();
  int signal = 0;
  if (parts[2] == "kill") signal = SIGKILL;
  if (parts[2] == "term") signal = SIGTERM;
  if (parts[2] == "stop") signal = SIGSTOP;
  if (signal == 0) return bad();
  return Plan{.name = std::string(parts[0]), .pass = nth.value(), .signal = signal};
}

std::optional<std::string> variable(const Process& process, std::string_view name) {
  auto value = process.env(name);
  return value && value->empty() ? std::nullopt : value;
}

}  // namespace

Result<> check_kill_plan(const std::string& text) {
  UNBROKEN_DO(parse_plan(text));
  return Done{};
}

Result<> install_points(const Process& process) {
  const auto kill = variable(process, "UNBROKEN_KILL"), log = variable(process, "UNBROKEN_POINT_LOG");
  if (!kill && !log) return Done{};
  auto points = std::make_unique<Points>();
  if (kill) {
    auto plan = parse_plan(*kill);
    if (!plan.ok()) return std::move(plan).error().with("UNBROKEN_KILL=" + *kill);
    points->plan = std::move(plan).value();
  }
  if (log) {
    auto opened = adopt(::open(log->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), "open", *log);
    if (!opened.ok()) return std::move(opened).error().with("UNBROKEN_POINT_LOG");
    points->log = std::move(opened).value();
  }
  points->before = installed.load(std::memory_order_relaxed);
  installed.store(points.release(), std::memory_order_release);
  point_hook.store(pass);
  return Done{};
}

}  // namespace unbroken
