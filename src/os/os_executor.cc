#include "os/os_executor.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "os/machine/cpu_meter.h"
#include "os/signals_blocked.h"
#include "world/check_time.h"

namespace unbroken {
namespace {

constexpr unsigned kComputeThreadsMax = 4;

using Report = std::function<void(std::string_view)>;

std::chrono::steady_clock::time_point time_point_of(Instant at) {
  return std::chrono::steady_clock::time_point(at.since_boot);
}

Instant now() {
  return {std::chrono::steady_clock::now().time_since_epoch()};
}

unsigned usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

/// Runs and destroys `task`.
void run(Task task, const Report& report) {
  try {
    task();
  } catch (const std::exception& thrown) {
    if (report) report(thrown.what());
  } catch (...) {
    if (report) report("a task threw something that is no exception");
  }
}

/// A bounded queue of tasks, some of which wait for their time.
/// Everybody is woken, not one: glibc before 2.41 may lose a pthread_cond_signal (its bug 25847), not a
/// broadcast.
class Queue {
 public:
  explicit Queue(std::size_t tasks_max) : tasks_max_(tasks_max) {}

  bool push(Task task) {
    {
      const std::scoped_lock lock(mutex_);
      if (is_stopping_ || tasks_.size() >= tasks_max_) return false;
      tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
    return true;
  }

  void push_at(Instant when, Task task) {
    {
      const std::scoped_lock lock(mutex_);
      if (is_stopping_) return;
      timed_.emplace(when, std::move(task));
    }
    changed_.notify_all();
  }

  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
  }

  /// Until stop().
  void run_tasks(const Report& report) {
    std::unique_lock lock(mutex_);
    while (!is_stopping_) {
      take_due();
      if (tasks_.empty()) {
        wait(lock);
        continue;
      }
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      run(std::move(task), report);
      lock.lock();
    }
  }

 private:
  void take_due() {
    const auto due = timed_.upper_bound(now());
    for (auto it = timed_.begin(); it != due; ++it) tasks_.push_back(std::move(it->second));
    timed_.erase(timed_.begin(), due);
  }
  void wait(std::unique_lock<std::mutex>& lock) {
    if (timed_.empty()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, time_point_of(timed_.begin()->first));
    }
  }

  const std::size_t tasks_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::multimap<Instant, Task> timed_;
  bool is_stopping_ = false;
};

}  // namespace

struct OsExecutor::Impl {
  explicit Impl(OsExecutorOptions chosen)
      : options(std::move(chosen)),
        strand(options.tasks_max),
        io(options.tasks_max),
        compute(options.tasks_max) {}
  ~Impl() {
    for (Queue* const queue : {&strand, &io, &compute}) queue->stop();
    threads.clear();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Queue& queue(Lane lane) {
    switch (lane) {
      case Lane::strand:
        return strand;
      case Lane::io:
        return io;
      case Lane::compute:
        break;
    }
    return compute;
  }

  void add_thread(Queue& lane, const std::string& name) {
    std::jthread& thread = threads.emplace_back([this, &lane] { lane.run_tasks(options.on_throw); });
    ::pthread_setname_np(thread.native_handle(), name.c_str());  // at most 15 characters
    if (&lane != &io || options.io_processors.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const unsigned processor : options.io_processors) CPU_SET(processor, &set);
    // A wish: where it is refused they run anywhere.
    static_cast<void>(::pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set));
  }

  const OsExecutorOptions options;
  Queue strand, io, compute;
  // What wait() waits for: any change that somebody announced.
  std::mutex mutex;
  std::condition_variable_any changed;
  std::uint64_t changes = 0;
  std::vector<std::jthread> threads;  // last: they end before what they use
};

OsExecutor::OsExecutor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<OsExecutor>> OsExecutor::start(OsExecutorOptions options) {
  if (options.compute_threads == 0)
    options.compute_threads = std::min(usable_processors(), kComputeThreadsMax);
  options.io_threads = std::max(options.io_threads, 1U);
  auto impl = std::make_unique<Impl>(std::move(options));
  const SignalsBlocked blocked;
  try {
    impl->add_thread(impl->strand, "unbroken-strand");
    for (unsigned i = 0; i < impl->options.io_threads; ++i)
      impl->add_thread(impl->io, fmt::format("unbroken-io{}", i % 1000));
    for (unsigned i = 0; i < impl->options.compute_threads; ++i)
      impl->add_thread(impl->compute, fmt::format("unbroken-cpu{}", i % 100));
  } catch (const std::system_error& thrown) {
    return Error(Code::unavailable, fmt::format("start threads: {}", thrown.what()));
  }
  return std::unique_ptr<OsExecutor>(new OsExecutor(std::move(impl)));
}

OsExecutor::~OsExecutor() {
  // The threads are the parent's: nobody here could be joined, and a mutex may be held for ever.
  if (guard_.is_child()) static_cast<void>(impl_.release());
}

bool OsExecutor::post(Lane lane, Task task) {
  return !guard_.is_child() && impl_->queue(lane).push(metered(std::move(task)));
}

void OsExecutor::post_at(Instant when, Task task) {
  if (!guard_.is_child()) impl_->strand.push_at(when, std::move(task));
}

Result<> OsExecutor::wait(const std::function<bool()>& is_done, const Deadline& by) {
  if (guard_.is_child()) return Error(Code::stopped, "the threads belong to the parent of this process");
  std::unique_lock lock(impl_->mutex);
  while (true) {
    const std::uint64_t seen = impl_->changes;
    lock.unlock();
    if (is_done()) return Done{};
    UNBROKEN_DO(check_time(now(), by));
    lock.lock();
    impl_->changed.wait_until(lock, by.stop, time_point_of(by.at), [&] { return impl_->changes != seen; });
  }
}

void OsExecutor::notify() {
  if (guard_.is_child()) return;
  {
    const std::scoped_lock lock(impl_->mutex);
    ++impl_->changes;
  }
  impl_->changed.notify_all();
}

unsigned OsExecutor::width(Lane lane) const {
  switch (lane) {
    case Lane::strand:
      return 1;
    case Lane::io:
      return impl_->options.io_threads;
    case Lane::compute:
      break;
  }
  return impl_->options.compute_threads;
}

}  // namespace unbroken
