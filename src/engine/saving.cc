#include "engine/saving.h"

#include <utility>

namespace unbroken {

bool Saving::has_reached(Stage stage) const {
  const std::lock_guard lock(mutex_);
  return reached_ && *reached_ >= stage;
}

std::optional<Error> Saving::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

bool Saving::is_settled(Stage stage) const {
  const std::lock_guard lock(mutex_);
  return error_ || (reached_ && *reached_ >= stage);
}

Result<> Saving::wait(Stage stage, const Deadline& by) const {
  const Counted here(waiting_.get());
  return executor_.wait([&] { return is_settled(stage); }, by);
}

void Saving::on_change(std::function<void()> tell) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_last = error_ || reached_ == Stage::verified;
    if (!is_last) listeners_.push_back(tell);
    if (!reached_ && !error_) return;
  }
  tell();
}

void Saving::reach(Stage stage) {
  {
    const std::lock_guard lock(mutex_);
    if (reached_ && *reached_ >= stage) return;
    reached_ = stage;
  }
  changed();
}

void Saving::fail(Error error) {
  // A caller would look for another checkpoint; but nothing was asked for that could be missing.
  if (error.code() == Code::not_found)
    error = Error(Code::unavailable, "the run's directory, or a part of it, was removed: " + error.what());
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  changed();
}

void Saving::changed() {
  std::vector<std::function<void()>> listeners;
  {
    const std::lock_guard lock(mutex_);
    // After the last news nobody is called again, so what the listeners hold is let go of.
    const bool is_last = error_ || reached_ == Stage::verified;
    listeners = is_last ? std::exchange(listeners_, {}) : listeners_;
  }
  for (const auto& tell : listeners) tell();
  executor_.notify();
}

}  // namespace unbroken
