#pragma once
// The handle of one save, shared between the trainer, who waits, and the background, which tells.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "world/executor.h"

namespace unbroken {

/// One more, as long as it lives. `number` may be null.
class Counted {
 public:
  explicit Counted(std::atomic<unsigned>* number) : number_(number) {
    if (number_ != nullptr) number_->fetch_add(1);
  }
  ~Counted() {
    if (number_ != nullptr) number_->fetch_sub(1);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<unsigned>* const number_;
};

/// Threads: any.
class Saving {
 public:
  enum class Stage : std::uint8_t {
    staged,    ///< copied: the live state may change
    durable,   ///< committed; survives what its tier's class says
    verified,  ///< read back from the tier
  };

  /// `waiting`: how many wait, of all that share it; null: nobody wants to know.
  Saving(SaveId id, Executor& executor, std::shared_ptr<std::atomic<unsigned>> waiting = nullptr)
      : id_(id), executor_(executor), waiting_(std::move(waiting)) {}
  std::uint64_t step() const { return id_.step; }
  /// "1200.a3", as it will be or is committed.
  std::string name() const { return id_.name(); }
  const SaveId& id() const { return id_; }

  bool has_reached(Stage stage) const;
  std::optional<Error> error() const;
  /// True once the stage is reached or never will be.
  bool is_settled(Stage stage) const;
  /// Waits for is_settled(stage); ok says nothing about the save, error() does. Errors: late, stopped.
  Result<> wait(Stage stage, const Deadline& by) const;
  /// Calls `tell` after each change, from the thread that made it; at once if there already was one.
  void on_change(std::function<void()> tell);

  void reach(Stage stage);
  void fail(Error error);

 private:
  void changed();

  const SaveId id_;
  Executor& executor_;
  const std::shared_ptr<std::atomic<unsigned>> waiting_;
  mutable std::mutex mutex_;
  std::optional<Stage> reached_;
  std::optional<Error> error_;
  std::vector<std::function<void()>> listeners_;
};

}  // namespace unbroken
