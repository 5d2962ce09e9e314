#include "world/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace unbroken {

namespace {

using Body = std::function<Result<>(std::size_t)>;

/// What the caller and its helpers share. A helper that comes late finds no index left and touches nothing
/// else: the body is the caller's, who stays until every index is done.
class Shared {
 public:
  explicit Shared(std::size_t count) : count_(count) {}

  /// True where there was an index left. Stops taking more when `is_relieved()`.
  template <class IsRelieved>
  bool work(const Body& body, IsRelieved is_relieved) {
    bool has_worked = false;
    for (std::size_t i; !is_relieved() && (i = next_.fetch_add(1)) < count_; done_.fetch_add(1)) {
      has_worked = true;
      if (!has_failed_.load()) keep(call(body, i));
    }
    return has_worked;
  }
  bool help(const Body& body) {
    has_help_.store(true);
    return work(body, [] { return false; });
  }
  bool has_help() const { return has_help_.load(); }
  bool is_done() const { return done_.load() == count_; }
  Result<> take() {
    const std::lock_guard lock(mutex_);
    if (error_) return std::move(*error_);
    return Done{};
  }

 private:
  /// A failed check in a body ends the work, not the thread that it happens to run on.
  static Result<> call(const Body& body, std::size_t index) {
    try {
      return body(index);
    } catch (const std::exception& e) {
      return Error(Code::bug, e.what());
    }
  }
  void keep(Result<> result) {
    if (result.ok()) return;
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(result).error();
    has_failed_.store(true);
  }

  const std::size_t count_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> done_{0};
  std::atomic<bool> has_failed_{false};
  std::atomic<bool> has_help_{false};
  std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace

Result<> parallel_for(Executor& executor, Lane lane, std::size_t count, const Body& body, Caller caller) {
  const auto shared = std::make_shared<Shared>(count);
  const std::size_t all = caller == Caller::stands_in ? count : count - std::min<std::size_t>(count, 1);
  const std::size_t helpers = std::min<std::size_t>(executor.width(lane), all);
  for (std::size_t i = 0; i < helpers; ++i) {
    const bool is_taken = executor.post(lane, [shared, &body, &executor] {
      if (shared->help(body)) executor.notify();
    });
    if (!is_taken) break;
  }
  shared->work(body, [&] { return caller == Caller::stands_in && shared->has_help(); });
  executor.join([&] { return shared->is_done(); });
  return shared->take();
}

}  // namespace unbroken
