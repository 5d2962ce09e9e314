#include "journal/read_journal.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/mutant.h"
#include "journal/fold/find_fold.h"
#include "journal/read/catchup.h"

namespace unbroken {

namespace {

Error lost_records(std::uint64_t beyond, std::uint64_t head, std::string_view evidence) {
  return Error(Code::journal_unreadable,
               fmt::format("the journal lost records: slot {} is missing, and {} names slot {}", head,
                           evidence, beyond));
}

}  // namespace

struct ReadJournal::Impl {
  enum class State : std::uint8_t {
    listing,
    hinting,
    finding_fold,
    catching_up,
    listing_again,
    looking_for_listed,
    over
  };
  Impl(History history, Purpose p)
      : purpose(p),
        may_find_fold(history.next_slot() == 0 && p != Purpose::audit),
        find_fold(history.fold_every()),
        catchup(std::move(history), p == Purpose::decide, p == Purpose::audit) {}

  std::vector<Action> fail(Error why) {
    error = std::move(why);
    state = State::over;
    return {};
  }

  std::vector<Action> list(State next) {
    state = next;
    return {ListPrefix{std::string(kJournalPrefix)}};
  }

  void on_names(const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (const auto slot = slot_from_name(name))
        highest_listed = std::max(highest_listed.value_or(0), *slot);
    if (highest_listed) catchup.expect(*highest_listed);
  }

  std::vector<Action> catch_up() {
    state = State::catching_up;
    // More is there than was told: so much more that it may be worth while to look for the end.
    const History& prefix = catchup.history();
    const std::uint64_t read = prefix.next_slot();
    if (may_find_fold && read > 0 && read - 1 >= told + prefix.fold_every()) {
      may_find_fold = false;
      return from_fold(find_fold.gallop(read - 1));
    }
    return catchup.ask();
  }

  /// The hint may be of another journal, and a listing may be stale: both are told as positions.
  std::vector<Action> start_from_fold() {
    std::vector<std::uint64_t> slots{highest_listed.value_or(0), hint ? hint->slot : 0};
    std::sort(slots.begin(), slots.end());
    told = highest_listed.value_or(0);
    if (!may_find_fold) return catch_up();
    return from_fold(find_fold.descend(std::move(slots)));
  }

  std::vector<Action> from_fold(std::vector<Action> actions) {
    state = State::finding_fold;
    if (!find_fold.is_over()) return actions;
    if (auto history = find_fold.take()) {
      told = std::max(told, history->next_slot());
      catchup = Catchup(std::move(*history), purpose == Purpose::decide);
      if (highest_listed) catchup.expect(*highest_listed);
    }
    return catch_up();
  }

  /// The prefix stands: does anything claim that there was more?
  std::vector<Action> check_beyond() {
    const std::uint64_t head = catchup.history().next_slot();
    const auto& genesis = catchup.history().genesis();
    if (hint && genesis && hint->run != genesis->run) hint.reset();
    const bool is_hinted = hint && hint->slot >= head && !UNBROKEN_MUTANT("hint_trusted");
    const bool is_listed = highest_listed && *highest_listed >= head;
    if (!is_hinted && !is_listed) {
      state = State::over;
      return {};
    }
    if (!is_second_look) {
      is_second_look = true;
      return list(State::listing_again);
    }
    if (is_hinted) return fail(lost_records(hint->slot, head, "the hint"));
    // A listing may be stale, so the slot itself has the last word.
    state = State::looking_for_listed;
    return {GetObject{slot_key(*highest_listed), kRecordBytesRead}};
  }

  State state = State::listing;
  const Purpose purpose;
  bool may_find_fold;      // nothing was read before, and the end was not looked for
  std::uint64_t told = 0;  // the highest slot that was listed, or folded
  FindFold find_fold;
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
  return impl_->list(Impl::State::listing);
}

std::vector<Action> ReadJournal::on(const Event& event) {
  Impl& me = *impl_;
  if (me.state == Impl::State::hinting) {
    // Advisory: what cannot be read says nothing.
    if (const auto* got = std::get_if<GotObject>(&event); got != nullptr && got->bytes)
      if (auto hint = decode_hint(*got->bytes); hint.ok()) me.hint = std::move(hint).value();
    return me.start_from_fold();
  }
  if (me.state == Impl::State::finding_fold) return me.from_fold(me.find_fold.on(event));
  if (me.state == Impl::State::catching_up) {
    auto stands = me.catchup.on(event);
    if (!stands.ok()) return me.fail(std::move(stands).error());
    if (stands.value() == Catchup::Next::wait) return {};
    return stands.value() == Catchup::Next::ask ? me.catch_up() : me.check_beyond();
  }
  if (auto failure = journal_failure(event)) return me.fail(std::move(*failure));
  switch (me.state) {
    case Impl::State::listing:
      me.on_names(std::get<ListedPrefix>(event).names);
      me.state = Impl::State::hinting;
      return {GetObject{std::string(kHintKey), kHintBytesRead}};
    case Impl::State::listing_again:
      me.on_names(std::get<ListedPrefix>(event).names);
      me.catchup.again();
      return me.catch_up();
    case Impl::State::looking_for_listed:
      if (std::get<GotObject>(event).bytes)
        return me.fail(lost_records(*me.highest_listed, me.catchup.history().next_slot(), "the listing"));
      me.state = Impl::State::over;
      return {};
    case Impl::State::hinting:
    case Impl::State::finding_fold:
    case Impl::State::catching_up:
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
  std::vector<std::uint64_t> repaired = impl_->catchup.repaired();
  std::vector<std::uint64_t> wrong = impl_->catchup.wrong_summaries();
  const std::uint64_t bytes_read = impl_->catchup.bytes_read() + impl_->find_fold.bytes_read();
  return JournalRead{impl_->catchup.take_history(), std::move(repaired), std::move(impl_->hint), bytes_read,
                     std::move(wrong)};
}

}  // namespace unbroken
