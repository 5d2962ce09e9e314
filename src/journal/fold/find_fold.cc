#include "journal/fold/find_fold.h"

#include <algorithm>
#include <utility>

#include "journal/slots.h"

namespace unbroken {

namespace {

/// Slots that are asked for together at most.
constexpr std::uint64_t kWindowMax = 64;

const std::optional<std::string>& bytes_of(const Event& event) {
  static const std::optional<std::string> kNone;
  const auto* got = std::get_if<GotObject>(&event);
  return got != nullptr ? got->bytes : kNone;  // a failure is met again by whoever reads the records
}

}  // namespace

std::vector<Action> FindFold::descend(std::vector<std::uint64_t> told, std::uint64_t above) {
  told_.clear();
  above_ = above / every_;
  for (const std::uint64_t slot : told)
    if (slot / every_ > above_) told_.push_back(slot / every_);
  return next_told();
}

std::vector<Action> FindFold::gallop(std::uint64_t there) {
  state_ = State::galloping;
  above_ = there_ = there / every_;
  asked_ = there_ + 1;
  return {slot_of(asked_)};
}

std::vector<Action> FindFold::on(const Event& event) {
  const auto& bytes = bytes_of(event);
  if (bytes) bytes_read_ += bytes->size();
  switch (state_) {
    case State::galloping:
    case State::bisecting:
      return on_end_probe(bytes.has_value());
    case State::probing:
      return on_probe(bytes);
    case State::fetching: {
      const Candidate tried = candidates_.back();
      candidates_.pop_back();
      if (bytes)
        if (auto history = decode_fold(*bytes, tried.ref, tried.previous, every_); history.ok()) {
          found_ = std::move(history).value();
          return end();
        }
      return fetch();
    }
    case State::over:
      break;
  }
  return {};
}

Action FindFold::slot_of(std::uint64_t multiple) const {
  return GetObject{slot_key(multiple * every_), kRecordBytesRead};
}

std::vector<Action> FindFold::end() {
  state_ = State::over;
  return {};
}

/// Twice as far each time, then between the last two.
std::vector<Action> FindFold::on_end_probe(bool is_there) {
  (is_there ? there_ : absent_) = asked_;
  if (state_ == State::galloping && is_there) {
    asked_ += asked_ - above_;
    return {slot_of(asked_)};
  }
  state_ = State::bisecting;
  if (absent_ - there_ > 1) {
    asked_ = there_ + (absent_ - there_) / 2;
    return {slot_of(asked_)};
  }
  told_ = {there_};
  return there_ > above_ ? next_told() : end();
}

std::vector<Action> FindFold::next_told() {
  if (told_.empty()) return end();
  next_ = told_.back();
  told_.pop_back();
  window_ = 1;
  return probe();
}

std::vector<Action> FindFold::probe() {
  state_ = State::probing;
  waiting_ = std::min(window_, next_ - above_);
  window_ = std::min(2 * window_, kWindowMax);
  is_any_there_ = false;
  std::vector<Action> actions;
  for (std::uint64_t i = 0; i < waiting_; ++i) actions.push_back(slot_of(next_ - i));
  return actions;
}

std::vector<Action> FindFold::on_probe(const std::optional<std::string>& bytes) {
  const std::uint64_t slot = next_-- * every_;
  is_any_there_ = is_any_there_ || bytes.has_value();
  if (bytes) {
    const auto decoded = decode_record(*bytes);
    const auto* summary = decoded.ok() ? std::get_if<Summary>(&decoded.value().record.fact) : nullptr;
    const bool is_usable = summary != nullptr && summary->form == kFoldForm &&
                           summary->fold_bytes <= kFoldBytesMax && decoded.value().record.slot == slot;
    if (is_usable)
      candidates_.insert(candidates_.begin(), {{slot, *summary}, decoded.value().record.previous});
  }
  if (--waiting_ > 0) return {};
  // Nothing is there: what was told is no position in this journal.
  return is_any_there_ ? fetch() : next_told();
}

std::vector<Action> FindFold::fetch() {
  if (!candidates_.empty()) {
    state_ = State::fetching;
    const FoldRef& ref = candidates_.back().ref;
    return {GetObject{fold_key(ref), ref.summary.fold_bytes}};
  }
  return next_ > above_ ? probe() : end();
}

}  // namespace unbroken
