#pragma once
// Which simulated thread runs next: one at a time, chosen from the seed at every scheduling point. Time is
// virtual: it creeps with every event and jumps to the next timer where nobody can run.
//
// Threads belong to a group (a simulated process), which can be frozen (its threads are not chosen) or ended:
// then its threads run before anybody else's, one after the other and each to its end, the first thread of
// the group last, because its stack owns what the others use.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "sim/fiber.h"
#include "simdisk/sim_random.h"
#include "world/clock.h"

namespace unbroken {

struct SimGroup;

struct SimThread {
  SimGroup* group = nullptr;
  std::unique_ptr<Fiber> fiber;
  std::size_t ready_index = SIZE_MAX;  ///< its place among the ready ones
  bool is_ready = false;               ///< could run (unless its group is frozen)
  bool is_over = false;
  bool is_timed_out = false;  ///< the last block() ended by time
  std::optional<std::pair<Instant, std::uint64_t>> timer;
};

struct SimGroup {
  std::vector<std::unique_ptr<SimThread>> threads;  ///< [0] is the main thread
  bool is_frozen = false;
  bool is_ending = false;
};

class Scheduler {
 public:
  /// `stay_ppm`: how often the running thread simply goes on at a scheduling point.
  Scheduler(std::uint64_t seed, std::uint32_t stay_ppm);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// `body` runs on a stack of its own; it must not throw.
  SimThread& start(SimGroup& group, std::function<void()> body);
  /// A scheduling point. Outside any thread: nothing.
  void yield();
  /// The running thread waits for wake(), for `stop` or, where given, for `until`. False: it was time.
  bool block(std::optional<Instant> until, const std::stop_token& stop = {});
  void wake(SimThread& thread);
  /// The running thread, whose group is ending, lets the others of its group but the main one go first.
  void step_back();
  void freeze(SimGroup& group);
  void thaw(SimGroup& group);
  /// All its threads run to their end, ahead of everybody else's.
  void end(SimGroup& group);
  /// `what` runs at `when`, on whatever stack is at hand; it must neither wait nor yield.
  void call_at(Instant when, std::function<void()> what);

  Instant now() const { return now_; }
  void advance(Duration by);
  SimThread* running() const { return running_; }

  /// Runs until nobody can run any more (true) or somebody asked to stop (false). Not from a thread.
  bool run();
  /// Runs only what is ending, to its end. Not from a thread.
  void run_ending();
  /// The next scheduling point goes back to run()'s caller.
  void ask_to_stop() { is_stop_asked_ = true; }
  std::uint64_t switch_count() const { return switch_count_; }

 private:
  struct Timer {
    SimThread* thread = nullptr;
    std::function<void()> call;
  };
  SimThread* pick();
  void switch_to(SimThread* next);
  void make_ready(SimThread& thread);
  void make_unready(SimThread& thread);
  void cancel_timer(SimThread& thread);
  void wake_stopped();
  bool fire_due();
  bool jump();
  void thread_over(SimThread& thread);
  void bury();

  Fiber main_;
  SimRandom random_;
  std::uint32_t stay_ppm_;
  Instant now_{};
  std::uint64_t sequence_ = 0;
  std::uint64_t switch_count_ = 0;
  std::map<std::pair<Instant, std::uint64_t>, Timer> timers_;
  std::vector<SimThread*> ready_;
  std::vector<std::pair<SimThread*, std::stop_token>> stoppable_;  ///< blocked
  std::vector<SimThread*> ending_;                                 ///< the last one first
  std::vector<std::unique_ptr<Fiber>> dead_;
  SimThread* running_ = nullptr;
  bool is_stop_asked_ = false;
};

}  // namespace unbroken
