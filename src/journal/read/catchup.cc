#include "journal/read/catchup.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"

namespace unbroken {

namespace {

Error unreadable(std::string what) {
  return Error(Code::journal_unreadable, std::move(what));
}

/// As many slots as are read together at most: 4 MiB of answers.
constexpr std::uint64_t kWindowMax = 64;

}  // namespace

std::optional<Error> journal_failure(const Event& event) {
  const auto* failed = std::get_if<ActionFailed>(&event);
  if (failed == nullptr) return std::nullopt;
  const Code code = failed->error.code();
  if (code != Code::corrupt && code != Code::bad_argument) return failed->error;
  return unreadable(failed->error.what());
}

Catchup::Catchup(History history, bool is_syncing, bool is_auditing)
    : follow_(std::move(history), is_auditing), is_syncing_(is_syncing), is_auditing_(is_auditing) {
  stands();
}

std::uint64_t Catchup::count_to_ask() const {
  if (state_ != State::following || !follow_.is_reading()) return 1;
  const std::uint64_t next = history().next_slot();
  // Beyond what is known, at most a quarter of what there was: few are asked for in vain.
  const std::uint64_t wanted = expected_ && *expected_ >= next ? *expected_ - next + 1 : unexpected_ / 4;
  const std::uint64_t count = std::clamp<std::uint64_t>(wanted, 1, kWindowMax);
  if (alone_ && next <= *alone_ && *alone_ < next + count) return std::max<std::uint64_t>(1, *alone_ - next);
  return count;
}

std::vector<Action> Catchup::ask() {
  asked_ = count_to_ask();
  answers_.clear();
  std::vector<Action> actions{ask_one()};
  for (std::uint64_t i = 1; i < asked_; ++i)
    actions.push_back(GetObject{slot_key(history().next_slot() + i), kRecordBytesRead});
  return actions;
}

void Catchup::again() {
  state_ = State::following;
  unexpected_ = 0;
}

Action Catchup::ask_one() const {
  const std::uint64_t next = history().next_slot();
  switch (state_) {
    case State::following:
      return follow_.ask();
    case State::looking_beyond:
      return GetObject{slot_key(next + 1), kRecordBytesRead};
    case State::looking_back:
    case State::looking_again:
      return GetObject{slot_key(next), kRecordBytesRead};
    case State::listing:
      return ListPrefix{std::string(kJournalPrefix)};
    case State::syncing:
      return SyncPrefix{std::string(kJournalPrefix)};
    case State::rereading:
      return GetObject{slot_key(next - 1), kRecordBytesRead};
  }
  UNBROKEN_CHECK(false);
}

Result<Catchup::Next> Catchup::on(const Event& event) {
  if (const auto* got = std::get_if<GotObject>(&event); got != nullptr && got->bytes)
    bytes_read_ += got->bytes->size();
  if (asked_ == 1) return on_one(event);
  answers_.push_back(event);
  return answers_.size() < asked_ ? Next::wait : on_batch();
}

Result<Catchup::Next> Catchup::on_batch() {
  for (const Event& answer : std::exchange(answers_, {})) {
    const std::uint64_t before = history().next_slot();
    UNBROKEN_TRY(const Next next, on_one(answer));
    const bool is_folded =
        state_ == State::following && follow_.is_reading() && history().next_slot() == before + 1;
    if (!is_folded) return next;
  }
  return Next::ask;
}

Result<Catchup::Next> Catchup::on_one(const Event& event) {
  if (auto failure = journal_failure(event)) return std::move(*failure);
  if (state_ == State::syncing) {
    UNBROKEN_CHECK(std::holds_alternative<SyncedPrefix>(event));
    if (history().next_slot() == 0 || UNBROKEN_MUTANT("no_reread_after_sync")) return Next::stands;
    state_ = State::rereading;
    return Next::ask;
  }
  if (state_ == State::listing) {
    UNBROKEN_CHECK(std::holds_alternative<ListedPrefix>(event));
    state_ = State::looking_again;
    return Next::ask;
  }
  const auto* got = std::get_if<GotObject>(&event);
  UNBROKEN_CHECK(got != nullptr);
  switch (state_) {
    case State::following:
      return on_slot(got->bytes);
    case State::looking_beyond:
      if (!got->bytes) return at_head();
      state_ = State::looking_back;
      return Next::ask;
    case State::looking_back:
      if (got->bytes) return on_slot(got->bytes);
      state_ = State::listing;
      return Next::ask;
    case State::looking_again:
      if (got->bytes) return on_slot(got->bytes);
      return unreadable(fmt::format("journal slot {} is missing although slot {} is there",
                                    history().next_slot(), history().next_slot() + 1));
    case State::rereading:
      return on_reread(got->bytes);
    case State::listing:
    case State::syncing:
      break;
  }
  UNBROKEN_CHECK(false);
}

Result<Catchup::Next> Catchup::on_slot(const std::optional<std::string>& bytes) {
  auto step = follow_.on(bytes);
  if (!step.ok()) {
    // What was read before may have been replaced since.
    const bool may_be_stale = follow_.is_chain_broken() && refolds_ == 0;
    if (!may_be_stale) return std::move(step).error();
    UNBROKEN_DO(refold());
    return Next::ask;
  }
  state_ = step.value() == Follow::Step::head ? State::looking_beyond : State::following;
  if (!expected_ || history().next_slot() > *expected_ + 1) ++unexpected_;
  if (history().next_slot() == durable_.slots && history().head() != durable_.head)
    return unreadable(
        fmt::format("the journal was replaced: slot {} is not the record that stood there after a sync",
                    durable_.slots - 1));
  return Next::ask;
}

Result<Catchup::Next> Catchup::at_head() {
  if (history().next_slot() < durable_.slots)
    return unreadable(
        fmt::format("the journal lost records: slot {} stood there after a sync, now {} slots are there",
                    durable_.slots - 1, history().next_slot()));
  if (!is_syncing_) return Next::stands;
  state_ = State::syncing;
  return Next::ask;
}

Result<Catchup::Next> Catchup::on_reread(const std::optional<std::string>& bytes) {
  const auto decoded = bytes ? decode_record(*bytes) : Error(Code::not_found, "gone");
  if (!decoded.ok() || decoded.value().digest != history().head()) {
    UNBROKEN_DO(refold());
    return Next::ask;
  }
  stands();
  return Next::stands;
}

Result<> Catchup::refold() {
  if (++refolds_ > 1) return unreadable("the journal changed underneath, twice");
  follow_ = Follow(History(history().fold_every()), is_auditing_);
  state_ = State::following;
  return Done{};
}

}  // namespace unbroken
