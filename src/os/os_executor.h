#pragma once
// Threads. One runs the strand, the others the lanes of workers; all of them leave every signal to the
// threads of the program we live in. In a forked child, where none of these threads exist, nothing happens:
// posts are refused, waits are `stopped`, and the end does not wait for anybody.
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "os/fork_guard.h"
#include "world/executor.h"

namespace unbroken {

struct OsExecutorOptions {
  unsigned io_threads = 8;
  std::vector<unsigned> io_processors = {};  ///< where they run; empty: anywhere
  unsigned compute_threads = 0;              ///< 0: one for each processor we may use, at most 4
  std::size_t tasks_max = 4096;  ///< waiting in one lane; timed tasks of the strand are not counted
  /// Told, from any worker, what a task threw. Tasks are not supposed to throw.
  std::function<void(std::string_view)> on_throw = {};
};

class OsExecutor final : public Executor {
 public:
  /// Errors: unavailable where the system gives no threads.
  static Result<std::unique_ptr<OsExecutor>> start(OsExecutorOptions options = {});
  /// Tasks that run are waited for, tasks that wait are dropped unrun. Not from a worker of its own.
  ~OsExecutor() override;
  OsExecutor(const OsExecutor&) = delete;
  OsExecutor& operator=(const OsExecutor&) = delete;

  bool post(Lane lane, Task task) override;
  void post_at(Instant when, Task task) override;
  Result<> wait(const std::function<bool()>& is_done, const Deadline& by) override;
  void notify() override;
  unsigned width(Lane lane) const override;

 private:
  struct Impl;
  explicit OsExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  const ForkGuard guard_;
};

}  // namespace unbroken
