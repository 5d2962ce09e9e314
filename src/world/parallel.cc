#include "world/parallel.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

namespace unbroken {

namespace {

struct Shared {
  explicit Shared(std::size_t n) : count(n), errors(n) {}
  const std::size_t count;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  std::atomic<bool> has_failed{false};
  std::vector<std::optional<Error>> errors;  // each written by the one that ran it, read after all are done
};

// `body` is only touched while an index is left, and the caller stays until every index is done.
void work(Shared& shared, const std::function<Result<>(std::size_t)>& body) {
  for (std::size_t i; (i = shared.next.fetch_add(1)) < shared.count; shared.done.fetch_add(1)) {
    if (shared.has_failed.load()) continue;
    if (auto result = body(i); !result.ok()) {
      shared.errors[i] = std::move(result).error();
      shared.has_failed.store(true);
    }
  }
}

}  // namespace

Result<> parallel_for(Executor& executor, Lane lane, std::size_t count,
                      const std::function<Result<>(std::size_t)>& body) {
  const auto shared = std::make_shared<Shared>(count);
  const std::size_t helpers = count == 0 ? 0 : std::min<std::size_t>(executor.width(lane), count - 1);
  for (std::size_t i = 0; i < helpers; ++i) {
    const bool is_taken = executor.post(lane, [shared, &body, &executor] {
      work(*shared, body);
      executor.notify();
    });
    if (!is_taken) break;
  }
  work(*shared, body);
  executor.join([&] { return shared->done.load() == count; });
  for (auto& error : shared->errors)
    if (error) return std::move(*error);
  return Done{};
}

}  // namespace unbroken
