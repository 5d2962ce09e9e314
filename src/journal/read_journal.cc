#include "journal/read_journal.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/mutant.h"
#include "journal/catchup.h"

namespace unbroken {

namespace {

Error lost_records(std::uint64_t beyond, std::uint64_t head, std::string_view evidence) {
  return Error(Code::journal_unreadable,
               fmt::format("the journal lost records: {} names slot {}, but only {} slots are there",
                           evidence, beyond, head))
      .next("unbroken verify DIR");
}

}  // namespace

struct ReadJournal::Impl {
  enum class State : std::uint8_t { listing, hinting, catching_up, looking_for_listed, over };
  Impl(History history, Purpose purpose) : catchup(std::move(history), purpose == Purpose::decide) {}

  std::vector<Action> fail(Error why) {
    error = std::move(why);
    state = State::over;
    return {};
  }

  /// The prefix stands: does anything claim that there was more?
  std::vector<Action> check_beyond() {
    const std::uint64_t head = catchup.history().next_slot();
    if (hint && catchup.history().genesis() && hint->run != catchup.history().genesis()->run) hint.reset();
    if (hint && hint->slot >= head && !UNBROKEN_MUTANT("hint_trusted"))
      return fail(lost_records(hint->slot, head, "the hint"));
    if (highest_listed && *highest_listed >= head) {
      // A listing may be stale, so the slot itself has the last word.
      state = State::looking_for_listed;
      return {GetObject{slot_key(*highest_listed), kRecordBytesRead}};
    }
    state = State::over;
    return {};
  }

  State state = State::listing;
  Catchup catchup;
  std::optional<std::uint64_t> highest_listed;
  std::optional<Hint> hint;
  bool is_second_look = false;
  std::optional<Error> error;
};

ReadJournal::ReadJournal(History history, Purpose purpose)
    : impl_(std::make_unique<Impl>(std::move(history), purpose)) {}
ReadJournal::~ReadJournal() = default;

std::vector<Action> ReadJournal::start() {
  return {ListPrefix{std::string(kJournalPrefix)}};
}

std::vector<Action> ReadJournal::on(const Event& event) {
  Impl& me = *impl_;
  switch (me.state) {
    case Impl::State::listing: {
      if (auto failure = journal_failure(event)) return me.fail(std::move(*failure));
      const auto* listed = std::get_if<ListedPrefix>(&event);
      UNBROKEN_CHECK(listed != nullptr);
      for (const std::string& name : listed->names)
        if (const auto slot = slot_from_name(name))
          me.highest_listed = std::max(me.highest_listed.value_or(0), *slot);
      me.state = Impl::State::hinting;
      return {GetObject{std::string(kHintKey), kHintBytesRead}};
    }
    case Impl::State::hinting: {
      // Advisory: what cannot be read says nothing.
      if (const auto* got = std::get_if<GotObject>(&event); got != nullptr && got->bytes)
        if (auto hint = decode_hint(*got->bytes); hint.ok()) me.hint = std::move(hint).value();
      me.state = Impl::State::catching_up;
      return {me.catchup.ask()};
    }
    case Impl::State::catching_up: {
      auto stands = me.catchup.on(event);
      if (!stands.ok()) return me.fail(std::move(stands).error());
      if (!stands.value()) return {me.catchup.ask()};
      return me.check_beyond();
    }
    case Impl::State::looking_for_listed: {
      if (auto failure = journal_failure(event)) return me.fail(std::move(*failure));
      const auto* got = std::get_if<GotObject>(&event);
      UNBROKEN_CHECK(got != nullptr);
      const std::uint64_t head = me.catchup.history().next_slot();
      const std::uint64_t listed = *me.highest_listed;
      me.highest_listed.reset();
      if (!got->bytes) {
        me.state = Impl::State::over;
        return {};
      }
      // It is there: was it appended since the head was read?
      if (!me.is_second_look) {
        me.is_second_look = true;
        me.highest_listed = listed;
        me.catchup.again();
        me.state = Impl::State::catching_up;
        return {me.catchup.ask()};
      }
      return me.fail(lost_records(listed, head, "the listing"));
    }
    case Impl::State::over:
      break;
  }
  UNBROKEN_CHECK(false);
}

bool ReadJournal::is_over() const {
  return impl_->state == Impl::State::over;
}

Result<JournalRead> ReadJournal::take() {
  UNBROKEN_CHECK(is_over());
  if (impl_->error) return std::move(*impl_->error);
  return JournalRead{impl_->catchup.history(), impl_->catchup.repaired(), impl_->hint};
}

}  // namespace unbroken
