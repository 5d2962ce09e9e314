#include "engine/status.h"

#include <fmt/format.h>

#include <utility>

namespace unbroken {

namespace {
constexpr std::size_t kMessagesMax = 100;
constexpr std::size_t kEndsMax = 16;
}  // namespace

void Status::saved(const SaveId& save, const Cost& cost) {
  const std::lock_guard lock(mutex_);
  newest_ = save;
  last_failure_.reset();
  loss_.reset();
  add_end(cost);
  saves_.committed += 1;
  saves_.exposed_s += cost.exposed_s;
  saves_.last = save;
  saves_.last_cost = cost;
  saves_.last_verified_s.reset();
}

void Status::verified(const SaveId& save, double since_s) {
  const std::lock_guard lock(mutex_);
  worry_.reset();
  if (saves_.last == save) saves_.last_verified_s = since_s;
}

void Status::save_failed(const SaveId& save, const Error& error, bool is_raised) {
  const std::lock_guard lock(mutex_);
  ++saves_failed_;
  if (saves_.last != save) add_end(std::nullopt);  // else only a tag of it failed
  last_failure_ = fmt::format("save {} failed: {}", save.name(), error.what());
  if (!is_raised) unreported_ = Error(error).with("save " + save.name());
  const std::string stands = newest_ ? newest_->name() + " stands" : "no checkpoint stands yet";
  add_message({fmt::format("warning: {}; {}", *last_failure_, stands), true});
}

void Status::add_message(Message message) {
  if (messages_.size() < kMessagesMax) messages_.push_back(std::move(message));
}

void Status::add_end(std::optional<Cost> end) {
  if (ends_.size() == kEndsMax) ends_.erase(ends_.begin());
  ends_.push_back(std::move(end));
}

void Status::save_skipped() {
  const std::lock_guard lock(mutex_);
  ++saves_skipped_;
}

void Status::changed_meanwhile(const std::vector<std::string>& tensors) {
  const std::lock_guard lock(mutex_);
  distrusted_.insert(tensors.begin(), tensors.end());
}

std::vector<std::string> Status::distrusted() const {
  const std::lock_guard lock(mutex_);
  return {distrusted_.begin(), distrusted_.end()};
}

std::size_t Status::distrusted_count() const {
  const std::lock_guard lock(mutex_);
  return distrusted_.size();
}

void Status::tell(std::string text) {
  const std::lock_guard lock(mutex_);
  add_message({std::move(text)});
}

void Status::warn(std::string text) {
  tell("warning: " + text);
}

void Status::worry(std::string text) {
  warn(text);
  const std::lock_guard lock(mutex_);
  worry_ = std::move(text);
}

void Status::promise_breaks(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_news = broken_promise_.empty() && !why.empty();
    broken_promise_ = why;
    if (!is_news) return;
  }
  warn(why);
}

void Status::fenced(Error error) {
  const std::lock_guard lock(mutex_);
  if (!fence_) fence_ = std::move(error);
}

void Status::journal_lost(Error error) {
  const std::lock_guard lock(mutex_);
  if (loss_) return;
  add_message({fmt::format("warning: {}: no start can go on from what is left there; next: {}", error.what(),
                           error.next_command())});
  loss_ = std::move(error);
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
  if (!broken_promise_.empty()) {
    health.state = Health::State::yellow;
    health.why.push_back(broken_promise_);
  }
  if (worry_) {
    health.state = Health::State::yellow;
    health.why.push_back(*worry_);
  }
  if (last_failure_) {
    health.state = Health::State::red;
    health.why.push_back(*last_failure_);
  }
  for (const auto& end : {fence_, loss_}) {
    if (!end) continue;
    health.state = Health::State::red;
    health.why.push_back(end->what());
  }
  return health;
}

std::optional<Error> Status::fence() const {
  const std::lock_guard lock(mutex_);
  return fence_;
}

std::optional<Error> Status::loss() const {
  const std::lock_guard lock(mutex_);
  return loss_;
}

std::optional<Error> Status::take_failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(unreported_, std::nullopt);
}

std::vector<std::string> Status::take_messages(bool goes_on) {
  std::vector<std::string> lines;
  const std::lock_guard lock(mutex_);
  for (Message& message : messages_) {
    if (message.is_failed_save && goes_on) message.text += "; training goes on";
    lines.push_back(std::move(message.text));
  }
  messages_.clear();
  return lines;
}

std::vector<std::optional<Status::Cost>> Status::take_ends() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ends_, {});
}

Status::Saves Status::saves() const {
  const std::lock_guard lock(mutex_);
  Saves out = saves_;
  out.failed = saves_failed_;
  out.skipped = saves_skipped_;
  return out;
}

}  // namespace unbroken
