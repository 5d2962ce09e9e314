#include "sim/sim_world.h"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <utility>

#include "base/point.h"

namespace unbroken {
namespace {

thread_local SimWorld* running_world = nullptr;

std::uint32_t pick_stay(const SimOptions& options) {
  if (options.stay_ppm) return *options.stay_ppm;
  constexpr std::array<std::uint32_t, 3> kStays{0, 500'000, 900'000};
  return kStays[SimRandom(options.seed, "stay").below(kStays.size())];
}

}  // namespace

SimWorld::SimWorld(SimOptions options)
    : options_(std::move(options)),
      scheduler_(options_.seed, pick_stay(options_)),
      clock_(scheduler_),
      disk_(clock_),
      faults_(options_.seed),
      observer_(disk_, nullptr),
      device_random_(options_.seed, "device"),
      loss_random_(options_.seed, "loss"),
      hash_(mix64(options_.seed)) {
  disk_.profile = options_.profile;
  is_write_async_ = options_.is_write_async.value_or(SimRandom(options_.seed, "async").below(2) == 1);
}

SimWorld::~SimWorld() {
  checks_.clear();
  until_ = nullptr;
  for (auto& process : processes_) process->kill();
}

std::function<void()> SimWorld::guarded(SimProcess& process, std::function<void()> body) {
  return [this, &process, run = std::move(body)] {
    try {
      run();
    } catch (const std::exception& e) {
      fail(fmt::format("{} threw: {}", process.name(), e.what()));
    }
  };
}

SimProcess& SimWorld::spawn(std::string name, Body body, SpawnOptions options) {
  processes_.push_back(
      std::make_unique<SimProcess>(*this, processes_.size(), std::move(name), std::move(options)));
  SimProcess& process = *processes_.back();
  note(process.index(), "spawned", process.name());
  process.start_thread([&process, run = std::move(body)]() mutable {
    if (process.is_over()) return;  // killed before it began
    // A process whose main thread throws ends as one that returns.
    struct Exit {
      SimProcess& process;
      ~Exit() {
        process.exit();
        process.world().scheduler().yield();  // its other threads end before its stack does
      }
    } exit{process};
    run(process);
    run = nullptr;
  });
  return process;
}

SimEnd SimWorld::run() {
  SimWorld* const outer_world = std::exchange(running_world, this);
  const PointHook outer_hook = point_hook.exchange(&SimWorld::on_point);
  const bool is_idle = failure_.empty() ? scheduler_.run() : true;
  point_hook.store(outer_hook);
  running_world = outer_world;

  SimEnd end{.failure = failure_, .event_count = event_count_, .hash = hash_};
  bool is_all_over = true;
  for (const auto& process : processes_) is_all_over = is_all_over && process->is_over();
  if (!failure_.empty()) {
    end.why = SimEnd::Why::failed;
  } else if (!is_idle) {
    end.why = SimEnd::Why::asked;
  } else {
    end.why = is_all_over ? SimEnd::Why::all_over : SimEnd::Why::idle;
  }
  return end;
}

SimEnd SimWorld::run_until(std::function<bool()> is_so) {
  until_ = std::move(is_so);
  SimEnd end = run();
  until_ = nullptr;
  return end;
}

void SimWorld::power_loss() {
  for (auto& process : processes_) process->kill();
  note(SIZE_MAX, "power loss", "");
  disk_.power_loss(loss_random_);
  ++boot_count_;
}

void SimWorld::server_restart() {
  note(SIZE_MAX, "server restart", "");
  disk_.server_restart(loss_random_);
}

void SimWorld::fail(std::string what) {
  if (!failure_.empty()) return;
  failure_ = fmt::format("seed {}, event {}: {}", options_.seed, event_count_, what);
  if (options_.is_traced) trace_ += failure_ + "\n";
  scheduler_.ask_to_stop();
}

const SimProcess* SimWorld::find(const ProcessIdentity& identity) const {
  for (const auto& process : processes_) {
    if (process->self() == identity) return process.get();
  }
  return nullptr;
}

void SimWorld::say(std::string_view text) {
  note(SIZE_MAX, "say", text);
}

void SimWorld::write_trace(std::size_t process, std::string_view what, std::string_view path,
                           std::uint64_t outcome) {
  const std::string_view who =
      process < processes_.size() ? std::string_view(processes_[process]->name()) : "world";
  trace_ +=
      fmt::format("{:>8} {:>12} {} {} {}", event_count_, clock_.now().since_boot.count(), who, what, path);
  if (outcome >= 1 && outcome < 100) trace_ += fmt::format(" {}", name_of(static_cast<Code>(outcome - 1)));
  if (outcome >= 100) trace_ += fmt::format(" ={}", outcome);
  trace_ += '\n';
}

void SimWorld::note(std::size_t process, std::string_view what, std::string_view detail) {
  mix(process ^ xxh128(as_bytes(what)).low ^ mix64(xxh128(as_bytes(detail)).low));
  if (options_.is_traced) write_trace(process, what, detail, 0);
}

void SimWorld::event(std::size_t process, SimOp op, std::string_view path, std::uint64_t outcome) {
  ++event_count_;
  mix(xxh128(as_bytes(path)).low ^ (process << 8 | static_cast<std::uint64_t>(op)) ^ mix64(outcome));
  if (options_.is_traced) write_trace(process, name_of(op), path, outcome);
  scheduler_.advance(options_.event_time);
  if (event_count_ >= options_.event_count_max) fail("too many events: somebody runs for ever");
  after_event();
}

void SimWorld::after_event() {
  if (is_checking_ || !failure_.empty()) return;
  is_checking_ = true;
  for (const auto& check : checks_) check();
  if (until_ && until_()) scheduler_.ask_to_stop();
  is_checking_ = false;
}

void SimWorld::on_point(const char* name) {
  SimWorld* const world = running_world;
  if (world == nullptr || world->scheduler_.running() == nullptr) return;
  for (auto& process : world->processes_) {
    if (&process->group() == world->scheduler_.running()->group) return process->reach_point(name);
  }
}

}  // namespace unbroken
