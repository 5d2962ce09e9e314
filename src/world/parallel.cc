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

  /// True where there was an index left.
  bool work(const Body& body) {
    bool has_worked = false;
    for (std::size_t i; (i = next_.fetch_add(1)) < count_; done_.fetch_add(1)) {
      has_worked = true;
      if (!has_failed_.load()) keep(call(body, i));
    }
    return has_worked;
  }
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
  std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace

Result<> parallel_for(Executor& executor, Lane lane, std::size_t count, const Body& body) {
  const auto shared = std::make_shared<Shared>(count);
  const std::size_t helpers = count == 0 ? 0 : std::min<std::size_t>(executor.width(lane), count - 1);
  for (std::size_t i = 0; i < helpers; ++i) {
    const bool is_taken = executor.post(lane, [shared, &body, &executor] {
      if (shared->work(body)) executor.notify();
    });
    if (!is_taken) break;
  }
  shared->work(body);
  executor.join([&] { return shared->is_done(); });
  return shared->take();
}

}  // namespace unbroken
