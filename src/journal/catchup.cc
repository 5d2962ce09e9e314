#include "journal/catchup.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/mutant.h"

namespace unbroken {

std::optional<Error> journal_failure(const Event& event) {
  const auto* failed = std::get_if<ActionFailed>(&event);
  if (failed == nullptr) return std::nullopt;
  if (failed->error.code() != Code::corrupt) return failed->error;
  return Error(Code::journal_unreadable, failed->error.what());
}

Action Catchup::ask() const {
  const std::uint64_t next = history().next_slot();
  switch (state_) {
    case State::following:
      return follow_.ask();
    case State::looking_beyond:
      return GetObject{slot_key(next + 1), kRecordBytesRead};
    case State::looking_back:
      return GetObject{slot_key(next), kRecordBytesRead};
    case State::syncing:
      return SyncPrefix{std::string(kJournalPrefix)};
    case State::rereading:
      return GetObject{slot_key(next - 1), kRecordBytesRead};
  }
  UNBROKEN_CHECK(false);
}

Result<> Catchup::refold() {
  if (++refolds_ > 1)
    return Error(Code::journal_unreadable, "the journal changed underneath, twice")
        .next("unbroken verify DIR");
  follow_ = Follow(History{});
  state_ = State::following;
  return Done{};
}

Result<bool> Catchup::at_head() {
  state_ = is_syncing_ ? State::syncing : State::following;
  return !is_syncing_;
}

Result<bool> Catchup::on_bytes(const std::optional<std::string>& bytes) {
  auto step = follow_.on(bytes);
  if (!step.ok()) {
    if (!follow_.is_chain_broken()) return std::move(step).error();
    const Error broken = step.error();
    if (auto again = refold(); !again.ok()) return broken;
    return false;
  }
  state_ = step.value() == Follow::Step::head ? State::looking_beyond : State::following;
  return false;
}

Result<bool> Catchup::on(const Event& event) {
  if (auto failure = journal_failure(event)) return std::move(*failure);
  if (std::holds_alternative<SyncedPrefix>(event)) {
    if (history().next_slot() == 0 || UNBROKEN_MUTANT("no_reread_after_sync")) return true;
    state_ = State::rereading;
    return false;
  }
  const auto* got = std::get_if<GotObject>(&event);
  UNBROKEN_CHECK(got != nullptr);
  switch (state_) {
    case State::following:
      return on_bytes(got->bytes);
    case State::looking_beyond:
      if (!got->bytes) return at_head();
      state_ = State::looking_back;
      return false;
    case State::looking_back:
      // Slot n+1 is there. Either slot n came in between, or the journal has a hole.
      if (got->bytes) return on_bytes(got->bytes);
      return Error(Code::journal_unreadable,
                   fmt::format("journal slot {} is missing although slot {} is there", history().next_slot(),
                               history().next_slot() + 1))
          .next("unbroken verify DIR");
    case State::rereading: {
      if (got->bytes) {
        const auto decoded = decode_record(*got->bytes);
        if (decoded.ok() && decoded.value().digest == history().head()) return true;
      }
      UNBROKEN_DO(refold());
      return false;
    }
    case State::syncing:
      break;
  }
  UNBROKEN_CHECK(false);
}

}  // namespace unbroken
