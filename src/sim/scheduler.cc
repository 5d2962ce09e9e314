#include "sim/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace unbroken {

Scheduler::Scheduler(std::uint64_t seed, std::uint32_t stay_ppm)
    : random_(seed, "scheduler"), stay_ppm_(stay_ppm) {}

Scheduler::~Scheduler() = default;

SimThread& Scheduler::start(SimGroup& group, std::function<void()> body) {
  auto owned = std::make_unique<SimThread>();
  SimThread& thread = *owned;
  thread.group = &group;
  thread.fiber = std::make_unique<Fiber>([this, &thread, run = std::move(body)]() mutable {
    bury();
    run();
    run = nullptr;  // what it holds is let go of on its own stack
    thread_over(thread);
  });
  group.threads.push_back(std::move(owned));
  thread.is_ready = true;
  if (group.is_ending) {
    ending_.push_back(&thread);
  } else if (!group.is_frozen) {
    make_ready(thread);
  }
  return thread;
}

void Scheduler::make_ready(SimThread& thread) {
  thread.ready_index = ready_.size();
  ready_.push_back(&thread);
}

void Scheduler::make_unready(SimThread& thread) {
  if (thread.ready_index == SIZE_MAX) return;
  SimThread* const last = ready_.back();
  ready_[thread.ready_index] = last;
  last->ready_index = thread.ready_index;
  ready_.pop_back();
  thread.ready_index = SIZE_MAX;
}

void Scheduler::cancel_timer(SimThread& thread) {
  if (thread.timer) timers_.erase(*thread.timer);
  thread.timer.reset();
}

void Scheduler::yield() {
  SimThread* const self = running_;
  if (self == nullptr) return;
  SimThread* const next = pick();
  if (next != self) switch_to(next);
}

bool Scheduler::block(std::optional<Instant> until, const std::stop_token& stop) {
  UNBROKEN_CHECK(running_ != nullptr);
  SimThread& self = *running_;
  if (self.group->is_ending) return true;
  self.is_ready = false;
  self.is_timed_out = false;
  make_unready(self);
  if (until) {
    self.timer = std::pair(std::max(*until, now_), sequence_++);
    timers_.emplace(*self.timer, Timer{&self, {}});
  }
  if (stop.stop_possible()) stoppable_.emplace_back(&self, stop);
  SimThread* const next = pick();
  if (next != &self) switch_to(next);
  if (stop.stop_possible())
    std::erase_if(stoppable_, [&](const auto& entry) { return entry.first == &self; });
  return !self.is_timed_out;
}

/// Tokens are asked, not listened to: a callback would need the system.
void Scheduler::wake_stopped() {
  for (const auto& [thread, stop] : stoppable_) {
    if (stop.stop_requested()) wake(*thread);
  }
}

void Scheduler::wake(SimThread& thread) {
  if (thread.is_ready || thread.is_over) return;
  cancel_timer(thread);
  thread.is_ready = true;
  if (!thread.group->is_frozen && !thread.group->is_ending) make_ready(thread);
}

void Scheduler::step_back() {
  UNBROKEN_CHECK(running_ != nullptr && running_->group->is_ending);
  SimThread* const self = running_;
  std::erase(ending_, self);
  const auto last = std::find_if(ending_.begin(), ending_.end(), [&](const SimThread* thread) {
    return thread->group == self->group && thread != self->group->threads.front().get();
  });
  ending_.insert(last, self);
  yield();
}

void Scheduler::freeze(SimGroup& group) {
  if (group.is_ending) return;
  group.is_frozen = true;
  for (auto& thread : group.threads) make_unready(*thread);
}

void Scheduler::thaw(SimGroup& group) {
  if (!group.is_frozen) return;
  group.is_frozen = false;
  for (auto& thread : group.threads) {
    if (thread->is_ready && !thread->is_over) make_ready(*thread);
  }
}

void Scheduler::end(SimGroup& group) {
  if (group.is_ending) return;
  group.is_ending = true;
  group.is_frozen = false;
  std::vector<SimThread*> order;
  for (auto& thread : group.threads) {
    make_unready(*thread);
    cancel_timer(*thread);
    thread->is_ready = true;
    if (!thread->is_over) order.push_back(thread.get());
  }
  // The running thread is in the middle of something: it goes first, unless it is the main one.
  const auto running = std::find(order.begin(), order.end(), running_);
  if (running != order.end() && running_ != group.threads.front().get())
    std::rotate(running, running + 1, order.end());
  ending_.insert(ending_.end(), order.begin(), order.end());
}

void Scheduler::call_at(Instant when, std::function<void()> what) {
  timers_.emplace(std::pair(std::max(when, now_), sequence_++), Timer{nullptr, std::move(what)});
}

bool Scheduler::fire_due() {
  bool any = false;
  while (!timers_.empty() && timers_.begin()->first.first <= now_) {
    Timer timer = std::move(timers_.begin()->second);
    SimThread* const thread = timer.thread;
    timers_.erase(timers_.begin());
    any = true;
    if (thread == nullptr) {
      timer.call();
      continue;
    }
    thread->timer.reset();
    thread->is_timed_out = true;
    wake(*thread);
  }
  return any;
}

void Scheduler::advance(Duration by) {
  now_ = now_ + by;
  fire_due();
}

bool Scheduler::jump() {
  if (timers_.empty()) return false;
  now_ = std::max(now_, timers_.begin()->first.first);
  return fire_due();
}

SimThread* Scheduler::pick() {
  for (;;) {
    if (!stoppable_.empty()) wake_stopped();
    if (!ending_.empty()) return ending_.back();
    if (is_stop_asked_) return nullptr;
    if (!ready_.empty()) break;
    if (!jump()) return nullptr;
  }
  if (ready_.size() == 1) return ready_.front();
  if (running_ != nullptr && running_->ready_index != SIZE_MAX && random_.happens(stay_ppm_)) return running_;
  return ready_[random_.below(ready_.size())];
}

void Scheduler::switch_to(SimThread* next) {
  Fiber& from = running_ == nullptr ? main_ : *running_->fiber;
  Fiber& to = next == nullptr ? main_ : *next->fiber;
  running_ = next;
  ++switch_count_;
  Fiber::switch_to(from, to);
  bury();
}

/// A fiber cannot free its own stack: the one that runs after it does.
void Scheduler::bury() {
  dead_.clear();
}

void Scheduler::thread_over(SimThread& thread) {
  thread.is_over = true;
  make_unready(thread);
  std::erase(ending_, &thread);
  SimThread* const next = pick();
  running_ = next;
  ++switch_count_;
  dead_.push_back(std::move(thread.fiber));
  Fiber::end(*dead_.back(), next == nullptr ? main_ : *next->fiber);
}

void Scheduler::run_ending() {
  UNBROKEN_CHECK(running_ == nullptr);
  is_stop_asked_ = true;  // nobody else is picked
  while (!ending_.empty()) switch_to(ending_.back());
}

bool Scheduler::run() {
  UNBROKEN_CHECK(running_ == nullptr);
  is_stop_asked_ = false;
  while (!is_stop_asked_) {
    SimThread* const next = pick();
    if (next == nullptr) return !is_stop_asked_;
    switch_to(next);
  }
  return false;
}

}  // namespace unbroken
