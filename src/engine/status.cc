#include "engine/status.h"

#include <fmt/format.h>

#include <utility>

namespace unbroken {

namespace {
constexpr std::size_t kMessagesMax = 100;
}

void Status::saved(const SaveId& save, double exposed_s, double durable_s) {
  const std::lock_guard lock(mutex_);
  newest_ = save;
  last_failure_.reset();
  cost_ = Cost{exposed_s, durable_s};
}

void Status::verified(const SaveId&) {
  const std::lock_guard lock(mutex_);
  worry_.reset();
}

void Status::save_failed(const SaveId& save, const Error& error) {
  const std::lock_guard lock(mutex_);
  ++saves_failed_;
  last_failure_ = fmt::format("save {} failed: {}", save.name(), error.what());
  unreported_ = Error(error).with("save " + save.name());
  const std::string stands = newest_ ? newest_->name() + " stands" : "no checkpoint stands yet";
  if (messages_.size() < kMessagesMax)
    messages_.push_back(fmt::format("warning: {}; {}; training goes on", *last_failure_, stands));
}

void Status::save_skipped() {
  const std::lock_guard lock(mutex_);
  ++saves_skipped_;
}

void Status::warn(std::string text) {
  const std::lock_guard lock(mutex_);
  if (messages_.size() < kMessagesMax) messages_.push_back("warning: " + text);
}

void Status::worry(std::string text) {
  warn(text);
  const std::lock_guard lock(mutex_);
  worry_ = std::move(text);
}

void Status::fenced(Error error) {
  const std::lock_guard lock(mutex_);
  if (!fence_) fence_ = std::move(error);
}

std::optional<SaveId> Status::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

void Status::set_newest(std::optional<SaveId> save) {
  const std::lock_guard lock(mutex_);
  newest_ = save;
}

Health Status::health() const {
  const std::lock_guard lock(mutex_);
  Health health;
  health.saves_failed = saves_failed_;
  health.saves_skipped = saves_skipped_;
  if (worry_) {
    health.state = Health::State::yellow;
    health.why.push_back(*worry_);
  }
  if (last_failure_) {
    health.state = Health::State::red;
    health.why.push_back(*last_failure_);
  }
  if (fence_) {
    health.state = Health::State::red;
    health.why.push_back(fence_->what());
  }
  return health;
}

std::optional<Error> Status::fence() const {
  const std::lock_guard lock(mutex_);
  return fence_;
}

std::optional<Error> Status::take_failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(unreported_, std::nullopt);
}

std::vector<std::string> Status::take_messages() {
  const std::lock_guard lock(mutex_);
  return std::exchange(messages_, {});
}

std::optional<Status::Cost> Status::take_cost() {
  const std::lock_guard lock(mutex_);
  return std::exchange(cost_, std::nullopt);
}

}  // namespace unbroken
