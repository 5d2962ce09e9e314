#pragma once
// For tests without threads: an executor in which nothing happens by itself.
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "world/executor.h"

namespace unbroken {

/// One thread that is several: tasks wait until the test, a body or a waiter runs them.
class SteppedExecutor final : public Executor {
 public:
  explicit SteppedExecutor(unsigned width, std::size_t tasks_max = 100)
      : width_(width), tasks_max_(tasks_max) {}
  bool post(Lane, Task task) override {
    if (tasks_.size() >= tasks_max_) return false;
    tasks_.push_back(std::move(task));
    ++posted;
    return true;
  }
  void post_at(Instant, Task) override {}
  Result<> wait(const std::function<bool()>& is_done, const Deadline&) override {
    while (!is_done()) {
      if (!run_one()) return Error(Code::bug, "waits for what never comes");
    }
    return Done{};
  }
  void notify() override { ++notified; }
  unsigned width(Lane) const override { return width_; }

  bool run_one() {
    if (tasks_.empty()) return false;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
    return true;
  }
  std::size_t posted = 0, notified = 0;

 private:
  unsigned width_;
  std::size_t tasks_max_;
  std::deque<Task> tasks_;
};

}  // namespace unbroken
