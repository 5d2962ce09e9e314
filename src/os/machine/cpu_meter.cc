#include "os/machine/cpu_meter.h"

#include <atomic>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "world/clock.h"

namespace unbroken {
namespace {

Duration thread_cpu() {
  timespec at{};
  UNBROKEN_CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at) == 0);
  return std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec);
}

class ThreadMeter;

/// What this thread does now.
struct Running {
  std::shared_ptr<ThreadMeter> meter;  // null: nobody counts it
  Duration since = {};
};
thread_local Running running;

class ThreadMeter final : public CpuMeter, public std::enable_shared_from_this<ThreadMeter> {
 public:
  std::shared_ptr<void> enter() override;
  std::shared_ptr<void> leave() override;
  double seconds() override;
  void add(Duration cpu) { counted_ns_.fetch_add(cpu.count()); }

 private:
  std::atomic<Duration::rep> counted_ns_ = 0;
};

/// Counts what the thread did since it was asked last.
void settle() {
  const Duration now = thread_cpu();
  if (running.meter) running.meter->add(now - running.since);
  running.since = now;
}

/// On one thread, and one inside the other.
class Scope {
 public:
  explicit Scope(std::shared_ptr<ThreadMeter> meter) {
    settle();
    before_ = std::exchange(running.meter, std::move(meter));
  }
  ~Scope() {
    settle();
    running.meter = std::move(before_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::shared_ptr<ThreadMeter> before_;
};

std::shared_ptr<void> ThreadMeter::enter() {
  return std::make_shared<Scope>(shared_from_this());
}

std::shared_ptr<void> ThreadMeter::leave() {
  return std::make_shared<Scope>(nullptr);
}

double ThreadMeter::seconds() {
  if (running.meter.get() == this) settle();
  return seconds_of(Duration(counted_ns_.load()));
}

}  // namespace

std::shared_ptr<CpuMeter> make_cpu_meter() {
  return std::make_shared<ThreadMeter>();
}

Task metered(Task task) {
  if (!running.meter) return task;
  return [meter = running.meter, task = std::move(task)] {
    const Scope scope(meter);
    task();
  };
}

}  // namespace unbroken
