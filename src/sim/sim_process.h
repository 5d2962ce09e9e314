#pragma once
// One simulated process: the seams its body runs on, and what a test does to it.
//
// A killed process's seam calls return Code::stopped at once and have no effect; its waits return; its
// threads run to their end by themselves, the body last, before anybody else runs. A paused one is alive to
// everybody and goes on where it was when it is resumed.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sim/scheduler.h"
#include "sim/sim_clock.h"
#include "sim/sim_executor.h"
#include "sim/sim_fault.h"
#include "simdisk/sim_random.h"
#include "world/fs.h"
#include "world/process.h"

namespace unbroken {

class SimFs;
class SimWorld;

struct SpawnOptions {
  std::string host = "node-0";
  std::map<std::string, std::string> env = {};
  std::int64_t wall_offset_ms = 0;  ///< how wrong this machine's wall clock is
  unsigned io_width = 3, compute_width = 2;
};

class SimProcess final : public Process {
 public:
  enum class State : std::uint8_t { running, paused, killed, exited };

  SimProcess(SimWorld& world, std::size_t index, std::string name, SpawnOptions options);
  ~SimProcess() override;

  // The seams.
  Fs& fs();
  Executor& executor() { return executor_; }
  Clock& clock() { return clock_; }
  /// This process's default stream; a second one for each other name.
  Random& random(std::string_view stream = "");
  ProcessIdentity self() const override { return identity_; }
  Liveness liveness(const ProcessIdentity& other) const override;
  std::vector<std::string> command_line() const override { return {name_}; }
  std::optional<std::string> env(std::string_view name) const override;
  bool copy_shared(const std::byte* from, MutableBytes into) const override;

  // What a test does to it. A kill from outside any simulated thread has unwound everything on return. Ops
  // count from 1, over every call on storage.
  void kill();
  void pause();
  void resume();
  void kill_at_op(std::uint64_t n) { kill_at_op_ = n; }
  void pause_at_op(std::uint64_t n) { pause_at_op_ = n; }
  /// At the n-th time that this process reaches the named point (base/point.h).
  void kill_at_point(std::string name, std::uint64_t n = 1);
  void pause_at_point(std::string name, std::uint64_t n = 1);

  State state() const { return state_; }
  bool is_over() const { return state_ == State::killed || state_ == State::exited; }
  const std::string& name() const { return name_; }
  std::size_t index() const { return index_; }
  std::uint64_t op_count() const { return op_count_; }
  /// Files that its SimFs holds open.
  std::size_t open_file_count() const;
  SimWorld& world() { return world_; }

  // For the seams.
  bool is_ending() const { return is_over(); }
  /// A scheduling point before a call on storage: what goes wrong with it, or `stopped`.
  Result<Fault> enter(SimOp op, std::string_view path);
  /// The call took place; `outcome` is 0 for ok, otherwise says how it ended.
  void leave(SimOp op, std::string_view path, std::uint64_t outcome);
  Error stopped();
  void start_thread(std::function<void()> body);
  void reach_point(std::string_view name);
  SimGroup& group() { return group_; }
  void exit() { over(State::exited); }

 private:
  struct AtPoint {
    std::string name;
    std::uint64_t left;
    bool is_kill;
  };
  void over(State how);

  SimWorld& world_;
  const std::size_t index_;
  const std::string name_;
  const SpawnOptions options_;
  ProcessIdentity identity_;
  SimGroup group_;
  SimClock clock_;
  SimExecutor executor_;
  std::map<std::string, std::unique_ptr<SimRandom>, std::less<>> random_;
  std::unique_ptr<SimFs> fs_;
  State state_ = State::running;
  std::uint64_t op_count_ = 0, kill_at_op_ = 0, pause_at_op_ = 0;
  std::uint64_t stopped_count_ = 0;
  std::vector<AtPoint> at_points_;
};

}  // namespace unbroken
