#pragma once
// A whole world from one seed, in one thread: a disk, virtual time, chance, and simulated processes that run
// the product's ordinary blocking code on fibers. The same seed and the same program give the same events.
//
//     SimWorld world({.seed = 7});
//     world.after_every_event([&] { if (is_wrong(world.disk())) world.fail("what is wrong"); });
//     SimProcess& first = world.spawn("first", [](SimProcess& me) {
//       FileStore store(me.fs(), me.clock(), me.random());          // the product, on this process's seams
//       const auto how = store.create("journal/0", as_bytes("x"), {Instant{std::chrono::hours(1)}, {}});
//       if (how.ok()) me.world().say("created");
//     });
//     first.kill_at_op(5);               // or kill_at_point(), pause_at_op(), world.faults().plan()
//     const SimEnd end = world.run();    // all over, or nobody can go on, or why it failed
//     world.power_loss();                // then spawn the next attempt and run() again
//     EXPECT_EQ(end.failure, "");        // a failure names the seed
//
// Scheduling points: every call on Fs and Store, Executor::wait, the start of every posted task, and
// UNBROKEN_POINT. Between two of them nobody else runs. Checkers run after every event, on the stack of
// whoever made it; they look at the disk by peek() or through observer(), which makes no events; they may run
// a whole other world. explore.h crashes at every call.
//
// Code under simulation waits only by Executor::wait and holds no lock across a call of a seam: everybody
// shares one thread, so a spin or a second lock would never end.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scheduler.h"
#include "sim/sim_clock.h"
#include "sim/sim_fault.h"
#include "sim/sim_fs.h"
#include "sim/sim_process.h"
#include "simdisk/sim_disk.h"
#include "simdisk/sim_random.h"

namespace unbroken {

struct SimOptions {
  std::uint64_t seed = 0;
  LossProfile profile = LossProfile::any_subset;
  std::uint64_t event_count_max = 5'000'000;            ///< more is a failure: somebody runs for ever
  Duration event_time = std::chrono::microseconds(20);  ///< virtual time that one event takes
  /// How often writes complete later, in any order; unset: one seed in two, all of them or none.
  std::optional<bool> is_write_async = std::nullopt;
  /// How often the running thread goes on at a scheduling point; unset: 0, 500,000 or 900,000, by the seed.
  std::optional<std::uint32_t> stay_ppm = std::nullopt;
  bool is_traced = false;  ///< keep every event as text
};

/// How run() ended.
struct SimEnd {
  enum class Why : std::uint8_t {
    all_over,  ///< every process ended
    idle,      ///< nobody can go on: the rest is paused, or waits for what never comes
    asked,     ///< stop_run()
    failed,
  };
  Why why = Why::all_over;
  std::string failure;  ///< names the seed; empty unless failed
  std::uint64_t event_count = 0;
  std::uint64_t hash = 0;  ///< over every event so far
  bool ok() const { return why != Why::failed; }
};

class SimWorld {
 public:
  using Body = std::function<void(SimProcess&)>;

  explicit SimWorld(SimOptions options = {});
  /// Ends every process and lets its threads unwind.
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  /// `body` is the process's main thread; the process exits when it returns. The reference stays valid as
  /// long as the world. An exception that leaves any of its threads is a failure.
  SimProcess& spawn(std::string name, Body body, SpawnOptions options = {});
  /// Runs until every process is over, nobody can go on, or a failure. May be called again.
  SimEnd run();
  /// run() returns before the next scheduling point is passed.
  void stop_run() { scheduler_.ask_to_stop(); }
  /// Runs until `is_so()` holds after an event (Why::asked), or as run().
  SimEnd run_until(std::function<bool()> is_so);
  /// `what` happens at this virtual time, between events; it must not wait.
  void call_at(Instant when, std::function<void()> what) { scheduler_.call_at(when, std::move(what)); }

  /// Kills every process; the disk keeps what it was lucky to keep; every machine boots anew.
  void power_loss();
  /// Unsynced names may be gone; the processes live on.
  void server_restart();

  SimDisk& disk() { return disk_; }
  Faults& faults() { return faults_; }
  /// The disk without scheduling, trace or faults.
  Fs& observer() { return observer_; }
  const Clock& clock() const { return clock_; }
  Instant now() const { return scheduler_.now(); }
  std::uint64_t seed() const { return options_.seed; }
  /// A named stream of chance; make it once and keep it.
  SimRandom stream(std::string_view name) const { return SimRandom(options_.seed, name); }
  const std::vector<std::unique_ptr<SimProcess>>& processes() const { return processes_; }

  void after_every_event(std::function<void()> check) { checks_.push_back(std::move(check)); }
  /// The first failure counts; run() returns it.
  void fail(std::string what);
  const std::string& failure() const { return failure_; }
  std::uint64_t event_count() const { return event_count_; }
  /// Equal for equal histories: process, call, path, bytes written, outcome of every event in order.
  std::uint64_t trace_hash() const { return hash_; }
  /// One line an event, where `is_traced`.
  const std::string& trace() const { return trace_; }
  /// A line of the test's own in the trace; part of the hash.
  void say(std::string_view text);

  // For the seams.
  Scheduler& scheduler() { return scheduler_; }
  void event(std::size_t process, SimOp op, std::string_view path, std::uint64_t outcome);
  void note(std::size_t process, std::string_view what, std::string_view detail);
  void mix(std::uint64_t x) { hash_ = mix64(hash_ ^ x); }
  bool is_write_async() const { return is_write_async_; }
  SimRandom& device_random() { return device_random_; }
  std::uint64_t boot_count() const { return boot_count_; }
  const SimProcess* find(const ProcessIdentity& identity) const;
  std::function<void()> guarded(SimProcess& process, std::function<void()> body);

 private:
  static void on_point(const char* name);
  void write_trace(std::size_t process, std::string_view what, std::string_view path, std::uint64_t outcome);
  void after_event();

  const SimOptions options_;
  Scheduler scheduler_;
  SimClock clock_;
  SimDisk disk_;
  Faults faults_;
  SimFs observer_;
  SimRandom device_random_;
  SimRandom loss_random_;
  bool is_write_async_ = false;
  std::uint64_t boot_count_ = 1;
  std::uint64_t event_count_ = 0;
  std::uint64_t hash_;
  std::string failure_;
  std::string trace_;
  bool is_checking_ = false;
  std::vector<std::function<void()>> checks_;
  std::function<bool()> until_;
  std::vector<std::unique_ptr<SimProcess>> processes_;
};

}  // namespace unbroken
