#include "journal/catchup.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/mutant.h"

namespace unbroken {

namespace {

Error unreadable(std::string what) {
  return Error(Code::journal_unreadable, std::move(what)).next("unbroken verify DIR");
}

}  // namespace

std::optional<Error> journal_failure(const Event& event) {
  const auto* failed = std::get_if<ActionFailed>(&event);
  if (failed == nullptr) return std::nullopt;
  if (failed->error.code() != Code::corrupt) return failed->error;
  return unreadable(failed->error.what());
}

Catchup::Catchup(History history, bool is_syncing) : follow_(std::move(history)), is_syncing_(is_syncing) {
  stands();
}

Action Catchup::ask() const {
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

Result<bool> Catchup::on(const Event& event) {
  if (auto failure = journal_failure(event)) return std::move(*failure);
  if (state_ == State::syncing) {
    UNBROKEN_CHECK(std::holds_alternative<SyncedPrefix>(event));
    if (history().next_slot() == 0 || UNBROKEN_MUTANT("no_reread_after_sync")) return true;
    state_ = State::rereading;
    return false;
  }
  if (state_ == State::listing) {
    UNBROKEN_CHECK(std::holds_alternative<ListedPrefix>(event));
    state_ = State::looking_again;
    return false;
  }
  const auto* got = std::get_if<GotObject>(&event);
  UNBROKEN_CHECK(got != nullptr);
  switch (state_) {
    case State::following:
      return on_slot(got->bytes);
    case State::looking_beyond:
      if (!got->bytes) return at_head();
      state_ = State::looking_back;
      return false;
    case State::looking_back:
      if (got->bytes) return on_slot(got->bytes);
      state_ = State::listing;
      return false;
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

Result<bool> Catchup::on_slot(const std::optional<std::string>& bytes) {
  auto step = follow_.on(bytes);
  if (!step.ok()) {
    // What was read before may have been replaced since.
    const bool may_be_stale = follow_.is_chain_broken() && refolds_ == 0;
    if (!may_be_stale) return std::move(step).error();
    UNBROKEN_DO(refold());
    return false;
  }
  state_ = step.value() == Follow::Step::head ? State::looking_beyond : State::following;
  if (history().next_slot() == durable_.slots && history().head() != durable_.head)
    return unreadable(
        fmt::format("the journal was replaced: slot {} is not the record that stood there after a sync",
                    durable_.slots - 1));
  return false;
}

Result<bool> Catchup::at_head() {
  if (history().next_slot() < durable_.slots)
    return unreadable(
        fmt::format("the journal lost records: slot {} stood there after a sync, now {} slots are there",
                    durable_.slots - 1, history().next_slot()));
  if (!is_syncing_) return true;
  state_ = State::syncing;
  return false;
}

Result<bool> Catchup::on_reread(const std::optional<std::string>& bytes) {
  const auto decoded = bytes ? decode_record(*bytes) : Error(Code::not_found, "gone");
  if (!decoded.ok() || decoded.value().digest != history().head()) {
    UNBROKEN_DO(refold());
    return false;
  }
  stands();
  return true;
}

Result<> Catchup::refold() {
  if (++refolds_ > 1) return unreadable("the journal changed underneath, twice");
  follow_ = Follow(History{});
  state_ = State::following;
  return Done{};
}

}  // namespace unbroken
