#include "journal/append.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/point.h"
#include "journal/catchup.h"
#include "journal/hint.h"

namespace unbroken {

namespace {

constexpr int kTriesMax = 8;

/// After SEAL only these may follow (rule R20).
bool is_allowed_when_sealed(const Fact& fact) {
  return !std::holds_alternative<Commit>(fact) && !std::holds_alternative<Open>(fact) &&
         !std::holds_alternative<Policy>(fact) && !std::holds_alternative<Abort>(fact);
}

}  // namespace

struct Append::Impl {
  enum class State : std::uint8_t { catching_up, creating, reading_back, syncing, rereading, advising, over };

  Impl(History history, Nonce nonce, std::int64_t at, Decide decide_on)
      : catchup(std::move(history), true), writer(nonce), at_unix_ms(at), decide(std::move(decide_on)) {}

  std::vector<Action> fail(Error why) {
    error = std::move(why);
    state = State::over;
    return {};
  }

  std::vector<Action> catch_up_again() {
    if (++tries > kTriesMax)
      return fail(Error(Code::unavailable,
                        "the journal could not be appended to: other writers were first each time, or the "
                        "storage lost each record"));
    catchup.again();
    state = State::catching_up;
    return {catchup.ask()};
  }

  /// Step 3: the prefix stands; what follows it?
  std::vector<Action> decide_on_prefix() {
    auto decision = decide(catchup.history());
    if (!decision.ok()) return fail(std::move(decision).error());
    if (std::holds_alternative<Stand>(decision.value())) {
      state = State::over;
      return {};
    }
    record = Record{catchup.history().next_slot(), writer, catchup.history().head(), at_unix_ms,
                    std::get<Fact>(std::move(decision).value())};
    if (catchup.history().is_sealed() && !is_allowed_when_sealed(record.fact))
      return fail(Error(Code::bad_argument, "the run is sealed: nothing more is saved in it"));
    auto bytes = encode_record(record);
    if (!bytes.ok()) return fail(std::move(bytes).error());
    encoded = std::move(bytes).value();
    // A record that the fold would refuse must never be written.
    after = catchup.history();
    if (auto fits = after.apply(record, encoded.digest); !fits.ok())
      return fail(Error(Code::bug, fits.error().what()));
    state = State::creating;
    UNBROKEN_POINT("journal.before_create");
    return {CreateObject{slot_key(record.slot), encoded.bytes}};
  }

  std::vector<Action> read_back(State next) {
    state = next;
    return {GetObject{slot_key(record.slot), kRecordBytesRead}};
  }

  std::vector<Action> sync() {
    state = State::syncing;
    if (UNBROKEN_MUTANT("hint_before_sync"))
      return {AdviseObject{std::string(kHintKey), hint()}, SyncPrefix{std::string(kJournalPrefix)}};
    return {SyncPrefix{std::string(kJournalPrefix)}};
  }

  std::string hint() const {
    return encode_hint({after.genesis()->run, record.slot, encoded.digest, std::nullopt});
  }

  std::vector<Action> advise() {
    is_mine = true;
    state = State::advising;
    UNBROKEN_POINT("journal.appended");
    return {AdviseObject{std::string(kHintKey), hint()}};
  }

  bool is_my_record(const std::optional<std::string>& bytes) const {
    if (!bytes) return false;
    const auto decoded = decode_record(*bytes);
    return decoded.ok() && decoded.value().digest == encoded.digest;
  }

  State state = State::catching_up;
  Catchup catchup;
  Nonce writer;
  std::int64_t at_unix_ms;
  Decide decide;
  Record record;
  EncodedRecord encoded;
  History after;
  std::optional<Error> create_error;
  int tries = 0;
  bool is_mine = false;
  std::optional<Error> error;
};

Append::Append(History history, Nonce writer, std::int64_t at_unix_ms, Decide decide)
    : impl_(std::make_unique<Impl>(std::move(history), writer, at_unix_ms, std::move(decide))) {}
Append::~Append() = default;

std::vector<Action> Append::start() {
  return {impl_->catchup.ask()};
}

std::vector<Action> Append::on(const Event& event) {
  Impl& me = *impl_;
  if (std::holds_alternative<AdvisedObject>(event) && me.state != Impl::State::advising) return {};
  switch (me.state) {
    case Impl::State::catching_up: {
      auto stands = me.catchup.on(event);
      if (!stands.ok()) return me.fail(std::move(stands).error());
      if (!stands.value()) return {me.catchup.ask()};
      return me.decide_on_prefix();
    }
    case Impl::State::creating:
      // Whatever the answer: the slot says whose record stands in it.
      if (const auto* failed = std::get_if<ActionFailed>(&event)) me.create_error = failed->error;
      return me.read_back(Impl::State::reading_back);
    case Impl::State::reading_back: {
      if (auto failure = journal_failure(event)) return me.fail(std::move(*failure));
      const auto& bytes = std::get<GotObject>(event).bytes;
      if (me.is_my_record(bytes)) return me.sync();
      if (!bytes && me.create_error) return me.fail(std::move(*me.create_error));
      me.create_error.reset();
      return me.catch_up_again();
    }
    case Impl::State::syncing:
      if (auto failure = journal_failure(event)) return me.fail(std::move(*failure));
      if (UNBROKEN_MUTANT("no_reread_after_sync")) return me.advise();
      return me.read_back(Impl::State::rereading);
    case Impl::State::rereading: {
      if (auto failure = journal_failure(event)) return me.fail(std::move(*failure));
      if (me.is_my_record(std::get<GotObject>(event).bytes)) return me.advise();
      return me.catch_up_again();
    }
    case Impl::State::advising:
      me.state = Impl::State::over;
      return {};
    case Impl::State::over:
      break;
  }
  UNBROKEN_CHECK(false);
}

bool Append::is_over() const {
  return impl_->state == Impl::State::over;
}

Result<Appended> Append::take() {
  UNBROKEN_CHECK(is_over());
  Impl& me = *impl_;
  if (me.error) return std::move(*me.error);
  if (!me.is_mine) return Appended{me.catchup.history(), std::nullopt, {}};
  return Appended{std::move(me.after), std::move(me.record), me.encoded.digest};
}

}  // namespace unbroken
