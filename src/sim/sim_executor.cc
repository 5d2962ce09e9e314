#include "sim/sim_executor.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "sim/sim_process.h"
#include "world/check_time.h"

namespace unbroken {

void SimExecutor::take(Workers& lane, Task task) {
  lane.tasks.push_back(std::move(task));
  if (!lane.idle.empty()) {
    SimThread* const worker = lane.idle.back();
    lane.idle.pop_back();
    scheduler_.wake(*worker);
  } else if (lane.started < lane.width) {
    ++lane.started;
    process_.start_thread([this, &lane] { work(lane); });
  }
}

bool SimExecutor::post(Lane lane, Task task) {
  Workers& workers = lanes_[static_cast<std::size_t>(lane)];
  if (process_.is_ending() || workers.tasks.size() >= kQueueMax) return false;
  take(workers, std::move(task));
  return true;
}

void SimExecutor::post_at(Instant when, Task task) {
  if (process_.is_ending()) return;
  const std::uint64_t id = next_later_++;
  later_.emplace(id, std::move(task));
  scheduler_.call_at(when, [this, id] {
    const auto at = later_.find(id);
    if (at == later_.end()) return;
    Task due = std::move(at->second);
    later_.erase(at);
    take(lanes_[static_cast<std::size_t>(Lane::strand)], std::move(due));
  });
}

void SimExecutor::work(Workers& lane) {
  for (;;) {
    while (!lane.tasks.empty()) {
      Task task = std::move(lane.tasks.front());
      lane.tasks.pop_front();
      if (!process_.is_ending()) scheduler_.yield();
      task();
    }
    if (process_.is_ending()) return;
    lane.idle.push_back(scheduler_.running());
    scheduler_.block(std::nullopt);
  }
}

Result<> SimExecutor::wait(const std::function<bool()>& is_done, const Deadline& by) {
  constexpr Instant kForever{std::chrono::hours(24 * 365 * 30)};
  SimThread* const self = scheduler_.running();
  UNBROKEN_CHECK(self != nullptr && self->group == &process_.group());
  if (!process_.is_ending()) scheduler_.yield();
  for (;;) {
    if (is_done()) return Done{};
    if (process_.is_ending()) return process_.stopped();
    UNBROKEN_DO(check_time(scheduler_.now(), by));
    waiting_.push_back(self);
    scheduler_.block(by.at < kForever ? std::optional(by.at) : std::nullopt, by.stop);
    std::erase(waiting_, self);
  }
}

void SimExecutor::join(const std::function<bool()>& is_done) {
  while (!is_done()) {
    // While the process ends, its other threads unwind one after the other: let them.
    if (process_.is_ending()) {
      scheduler_.step_back();
    } else {
      (void)wait(is_done, Deadline{Instant{Duration::max()}, {}});
    }
  }
}

void SimExecutor::notify() {
  for (SimThread* const thread : waiting_) scheduler_.wake(*thread);
}

}  // namespace unbroken
