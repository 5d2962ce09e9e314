#include "sim/sim_process.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "sim/sim_fs.h"
#include "sim/sim_world.h"

namespace unbroken {

SimProcess::SimProcess(SimWorld& world, std::size_t index, std::string name, SpawnOptions options)
    : world_(world),
      index_(index),
      name_(std::move(name)),
      options_(std::move(options)),
      clock_(world.scheduler()),
      executor_(*this, world.scheduler(), options_.io_width, options_.compute_width),
      fs_(std::make_unique<SimFs>(world.disk(), this)) {
  clock_.wall_offset_ms = options_.wall_offset_ms;
  identity_ = {
      .host = options_.host,
      .boot_id = fmt::format("{}-boot-{}", options_.host, world.boot_count()),
      .pid_namespace = 1,
      .pid = 1000 + index,
      .start_ticks = static_cast<std::uint64_t>(clock_.now().since_boot / std::chrono::milliseconds(10))};
}

SimProcess::~SimProcess() = default;

Fs& SimProcess::fs() {
  return *fs_;
}

Random& SimProcess::random(std::string_view stream) {
  auto at = random_.find(stream);
  if (at == random_.end()) {
    const std::string full = fmt::format("process {} {}: {}", index_, name_, stream);
    at = random_.emplace(std::string(stream), std::make_unique<SimRandom>(world_.seed(), full)).first;
  }
  return *at->second;
}

Liveness SimProcess::liveness(const ProcessIdentity& other) const {
  if (other.host != identity_.host || other.boot_id != identity_.boot_id) return Liveness::unknown;
  const SimProcess* const found = world_.find(other);
  return found != nullptr && !found->is_over() ? Liveness::alive : Liveness::dead;
}

std::optional<std::string> SimProcess::env(std::string_view name) const {
  const auto at = options_.env.find(std::string(name));
  return at == options_.env.end() ? std::nullopt : std::optional(at->second);
}

std::size_t SimProcess::open_file_count() const {
  return fs_->open_count();
}

void SimProcess::over(State how) {
  if (is_over()) return;
  state_ = how;
  world_.note(index_, how == State::killed ? "killed" : "exited", name_);
  fs_->close_all();
  executor_.close();
  world_.scheduler().end(group_);
  if (world_.scheduler().running() == nullptr) world_.scheduler().run_ending();
}

void SimProcess::kill() {
  over(State::killed);
}

void SimProcess::pause() {
  if (state_ != State::running) return;
  state_ = State::paused;
  world_.note(index_, "paused", name_);
  world_.scheduler().freeze(group_);
}

void SimProcess::resume() {
  if (state_ != State::paused) return;
  state_ = State::running;
  world_.note(index_, "resumed", name_);
  world_.scheduler().thaw(group_);
}

void SimProcess::kill_at_point(std::string name, std::uint64_t n) {
  at_points_.push_back({std::move(name), n, true});
}

void SimProcess::pause_at_point(std::string name, std::uint64_t n) {
  at_points_.push_back({std::move(name), n, false});
}

Error SimProcess::stopped() {
  if (++stopped_count_ > 1'000'000) {
    throw CheckFailed(
        fmt::format("process {} goes on calling after it was stopped (seed {})", name_, world_.seed()));
  }
  return {Code::stopped, name_ + " is being ended"};
}

void SimProcess::start_thread(std::function<void()> body) {
  world_.scheduler().start(group_, world_.guarded(*this, std::move(body)));
}

Result<Fault> SimProcess::enter(SimOp op, std::string_view path) {
  if (is_over()) return stopped();
  Scheduler& scheduler = world_.scheduler();
  UNBROKEN_CHECK(scheduler.running() != nullptr && scheduler.running()->group == &group_);
  scheduler.yield();
  if (is_over()) return stopped();
  ++op_count_;
  if (op_count_ == kill_at_op_) {
    kill();
    scheduler.yield();
    return stopped();
  }
  if (op_count_ == pause_at_op_) {
    pause();
    scheduler.yield();
    if (is_over()) return stopped();
  }
  const Fault fault = world_.faults().decide(op, path, name_);
  if (fault.kind == FaultKind::hang) {
    const Instant until = scheduler.now() + fault.hang;
    while (!is_over() && scheduler.now() < until) scheduler.block(until);
    if (is_over()) return stopped();
  }
  return fault;
}

void SimProcess::leave(SimOp op, std::string_view path, std::uint64_t outcome) {
  world_.event(index_, op, path, outcome);
  if (is_over()) world_.scheduler().yield();  // a checker killed it: its other threads go first
}

void SimProcess::reach_point(std::string_view name) {
  if (is_over()) return;
  world_.note(index_, "point", name);
  for (AtPoint& at : at_points_) {
    if (at.name != name || at.left == 0 || --at.left > 0) continue;
    at.is_kill ? kill() : pause();
  }
  world_.scheduler().yield();
}

bool SimProcess::copy_shared(const std::byte* from, MutableBytes into) const {
  std::copy_n(from, into.size(), into.data());
  return true;
}

}  // namespace unbroken
