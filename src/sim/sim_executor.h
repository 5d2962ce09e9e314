#pragma once
// The lanes of one simulated process, as fibers. Any worker may be chosen at any scheduling point, so tasks
// of the io and compute lanes overlap and overtake each other as the seed says; the strand keeps its order.
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "sim/scheduler.h"
#include "world/executor.h"

namespace unbroken {

class SimProcess;

class SimExecutor final : public Executor {
 public:
  static constexpr std::size_t kQueueMax = 4096;

  SimExecutor(SimProcess& process, Scheduler& scheduler, unsigned io_width, unsigned compute_width)
      : process_(process), scheduler_(scheduler) {
    lanes_[static_cast<std::size_t>(Lane::strand)].width = 1;
    lanes_[static_cast<std::size_t>(Lane::io)].width = io_width;
    lanes_[static_cast<std::size_t>(Lane::compute)].width = compute_width;
  }
  bool post(Lane lane, Task task) override;
  void post_at(Instant when, Task task) override;
  /// Errors: also stopped where the process is being ended.
  Result<> wait(const std::function<bool()>& is_done, const Deadline& by) override;
  void join(const std::function<bool()>& is_done) override;
  void notify() override;
  unsigned width(Lane lane) const override { return lanes_[static_cast<std::size_t>(lane)].width; }
  /// Forgets what was to run later; what was accepted for now still runs.
  void close() { later_.clear(); }

 private:
  struct Workers {
    unsigned width = 1, started = 0;
    std::deque<Task> tasks;
    std::vector<SimThread*> idle;
  };
  void take(Workers& lane, Task task);
  void work(Workers& lane);

  SimProcess& process_;
  Scheduler& scheduler_;
  std::array<Workers, 3> lanes_;
  std::map<std::uint64_t, Task> later_;
  std::uint64_t next_later_ = 0;
  std::vector<SimThread*> waiting_;
};

}  // namespace unbroken
