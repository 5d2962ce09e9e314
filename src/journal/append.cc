#include "journal/append.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/mutant.h"
#include "base/point.h"
#include "journal/fold/fold.h"
#include "journal/hint.h"
#include "journal/read/catchup.h"

namespace unbroken {

namespace {

/// Each race that is lost is a record of somebody else: the run gets on, but this append is starved.
constexpr int kRacesMax = 64;
/// The answer to a create may be lost with the record; again and again means that the storage does not work.
constexpr int kLossesMax = 8;

}  // namespace

struct Append::Impl {
  enum class State : std::uint8_t {
    catching_up,
    held,
    creating_fold,
    syncing_fold,
    reading_fold,
    creating,
    reading_back,
    syncing,
    rereading,
    standing_down,
    advising,
    over
  };

  Impl(History history, Nonce nonce, std::int64_t at, Decide decide_on, Parts parts)
      : catchup(std::move(history), true),
        writer(nonce),
        at_unix_ms(at),
        decide(std::move(decide_on)),
        is_held(parts == Parts::two),
        is_hint_left(parts == Parts::two) {}

  std::vector<Action> fail(Error why) {
    error = std::move(why);
    state = State::over;
    return {};
  }

  std::vector<Action> finish() {
    state = State::over;
    return {};
  }

  /// Step 3: the prefix stands; what follows it?
  std::vector<Action> decide_on_prefix() {
    if (is_held) {
      state = State::held;
      return {};
    }
    const History& prefix = catchup.history();
    auto decision = decide(prefix);
    if (!decision.ok()) return fail(std::move(decision).error());
    if (std::holds_alternative<Stand>(decision.value())) return stand_down();
    if (prefix.is_summary_due() && no_fold_in != prefix.next_slot())
      if (auto made = encode_fold(prefix); made.ok()) return create_fold(std::move(made).value());
    return encode(std::get<Fact>(std::move(decision).value()));
  }

  /// The caller acts on the prefix, so that it has to be one.
  std::vector<Action> stand_down() {
    if (catchup.history().next_slot() == 0) return finish();
    state = State::standing_down;
    return {GetObject{slot_key(0), kRecordBytesRead}};
  }

  std::vector<Action> on_stood_down(const std::optional<std::string>& first) {
    if (is_first(first)) return finish();
    if (auto anew = catchup.begin_anew(); !anew.ok()) return fail(std::move(anew).error());
    state = State::catching_up;
    return catchup.ask();
  }

  std::vector<Action> encode(Fact fact) {
    const History& prefix = catchup.history();
    is_summary = std::holds_alternative<Summary>(fact);
    auto bytes = encode_record({prefix.next_slot(), writer, prefix.head(), at_unix_ms, std::move(fact)});
    if (!bytes.ok()) return fail(std::move(bytes).error());
    encoded = std::move(bytes).value();
    // A record that readers would refuse must never be written.
    if (auto fits = prefix.check(encoded.record); !fits.ok())
      return fail(Error(Code::bug, fits.error().what()).with("not appended"));
    return create();
  }

  std::vector<Action> create_fold(EncodedFold made) {
    fold = std::move(made);
    if (UNBROKEN_MUTANT("summary_before_fold")) return encode(fold.summary);
    state = State::creating_fold;
    UNBROKEN_POINT("journal.before_fold");
    return {CreateObject{fold.key, fold.bytes}};
  }

  /// Whatever the answers were: does the name, looked up after the sync, hold these very bytes?
  std::vector<Action> on_fold(const Event& event) {
    if (state == State::creating_fold) {
      state = State::syncing_fold;
      return {SyncPrefix{std::string(kFoldPrefix)}};
    }
    if (state == State::syncing_fold) {
      is_fold_synced = std::holds_alternative<SyncedPrefix>(event);
      state = State::reading_fold;
      return {GetObject{fold.key, kFoldBytesMax}};
    }
    const auto* got = std::get_if<GotObject>(&event);
    if (is_fold_synced && got != nullptr && got->bytes == fold.bytes) return encode(fold.summary);
    no_fold_in = catchup.history().next_slot();
    return decide_on_prefix();
  }

  std::vector<Action> create() {
    state = State::creating;
    was_standing_possible = may_stand;
    may_stand = may_stand || !is_summary;
    UNBROKEN_POINT("journal.before_create");
    return {CreateObject{slot_key(encoded.record.slot), encoded.bytes}};
  }

  /// Step 4, with the answer to create().
  std::vector<Action> on_created(const Event& event) {
    UNBROKEN_POINT("journal.after_create");
    create_error.reset();
    if (const auto* failed = std::get_if<ActionFailed>(&event)) {
      create_error = failed->error;
      // Content comes before the name: where there was no room for the one there never is the other.
      if (failed->error.code() == Code::no_space) may_stand = was_standing_possible;
    }
    const auto* created = std::get_if<CreatedObject>(&event);
    if (created != nullptr && created->how == Created::created) return sync();
    // The slot says whose record stands in it.
    return read_back(State::reading_back);
  }

  std::vector<Action> on_read_back(const std::optional<std::string>& bytes) {
    if (is_mine(bytes)) return sync();
    if (bytes) return lost_race();
    if (create_error) return fail(std::move(*create_error));
    if (++losses > kLossesMax) return fail(storage_loses());
    return create();  // the same again: if the first one is only late, this one finds it
  }

  std::vector<Action> sync() {
    state = State::syncing;
    if (UNBROKEN_MUTANT("hint_before_sync") && !std::exchange(is_hint_early, true))
      return {AdviseObject{std::string(kHintKey), hint()}};
    return {SyncPrefix{std::string(kJournalPrefix)}};
  }

  std::vector<Action> read_back(State next) {
    state = next;
    return {GetObject{slot_key(encoded.record.slot), kRecordBytesRead}};
  }

  /// With the record, the first slot: of a journal that is removed while it grows the last slots stay, and
  /// each of them would be found by its name.
  std::vector<Action> reread() {
    answers.clear();
    std::vector<Action> actions = read_back(State::rereading);
    if (encoded.record.slot > 0) actions.push_back(GetObject{slot_key(0), kRecordBytesRead});
    return actions;
  }

  /// Step 5: are both still there?
  std::vector<Action> on_reread(const Event& event) {
    answers.push_back(event);
    if (answers.size() == 1 && encoded.record.slot > 0) return {};
    for (const Event& answer : answers)
      if (auto failure = journal_failure(answer)) return fail(std::move(*failure));
    const auto& bytes = std::get<GotObject>(answers.front()).bytes;
    if (bytes && !is_mine(bytes)) return lost_race();
    if (!bytes) return ++losses > kLossesMax ? fail(storage_loses()) : catch_up_again();
    if (encoded.record.slot > 0 && !is_first(std::get<GotObject>(answers.back()).bytes)) {
      if (auto anew = catchup.begin_anew(); !anew.ok()) return fail(std::move(anew).error());
      return catch_up_again();
    }
    return advise();
  }

  bool is_first(const std::optional<std::string>& bytes) const {
    const auto decoded = bytes ? decode_record(*bytes) : Error(Code::not_found, "gone");
    const auto* genesis = decoded.ok() ? std::get_if<Genesis>(&decoded.value().record.fact) : nullptr;
    return genesis != nullptr && genesis->run == catchup.history().genesis()->run;
  }

  std::vector<Action> lost_race() {
    if (++races > kRacesMax)
      return fail(
          Error(Code::unavailable,
                fmt::format("the journal could not be appended to: others were first {} times", kRacesMax)));
    return catch_up_again();
  }

  Error storage_loses() const {
    return Error(Code::unavailable,
                 fmt::format("the journal could not be appended to: the storage lost slot {} {} times",
                             encoded.record.slot, kLossesMax));
  }

  std::vector<Action> catch_up_again() {
    catchup.again();
    catchup.ask_alone(encoded.record.slot);  // the own record may come back: is_own_come_back
    state = State::catching_up;
    return catchup.ask();
  }

  /// The own record comes back although it was gone when it was read: it is not somebody else's.
  bool is_own_come_back(const Event& event) const {
    const auto* got = std::get_if<GotObject>(&event);
    return got != nullptr && !encoded.bytes.empty() && got->key == slot_key(encoded.record.slot) &&
           catchup.history().next_slot() == encoded.record.slot && is_mine(got->bytes);
  }

  /// Step 5 is done: the record stands.
  std::vector<Action> advise() {
    state = State::advising;
    is_appended = !is_summary;
    UNBROKEN_POINT("journal.appended");
    if (is_appended && is_hint_left) return finish();
    return {AdviseObject{std::string(kHintKey), hint()}};
  }

  std::vector<Action> on_advised() {
    if (!is_summary) return finish();
    if (UNBROKEN_MUTANT("summary_before_fold") && !std::exchange(is_fold_late, true)) {
      return {CreateObject{fold.key, fold.bytes}};
    }
    // On to what was asked for.
    is_fold_late = false;
    encoded = {};
    catchup.again();
    state = State::catching_up;
    return catchup.ask();
  }

  std::string hint() const {
    const auto* first = std::get_if<Genesis>(&encoded.record.fact);
    const std::string& run = first != nullptr ? first->run : catchup.history().genesis()->run;
    return encode_hint({run, encoded.record.slot, encoded.digest, std::nullopt});
  }

  bool is_mine(const std::optional<std::string>& bytes) const {
    if (!bytes) return false;
    const auto decoded = decode_record(*bytes);
    return decoded.ok() && decoded.value().digest == encoded.digest;
  }

  State state = State::catching_up;
  Catchup catchup;
  Nonce writer;
  std::int64_t at_unix_ms;
  Decide decide;
  bool is_held;
  const bool is_hint_left;
  EncodedRecord encoded;
  std::optional<Error> create_error;
  int races = 0, losses = 0;
  bool is_appended = false;
  bool may_stand = false, was_standing_possible = false;
  std::vector<Event> answers;  // to reread()
  EncodedFold fold;
  bool is_summary = false;  // the record at hand is one
  bool is_fold_synced = false;
  std::optional<std::uint64_t> no_fold_in;           // this slot: its fold could not be stored
  bool is_hint_early = false, is_fold_late = false;  // of planted faults
  std::optional<Error> error;
};

Append::Append(History history, Nonce writer, std::int64_t at_unix_ms, Decide decide, Parts parts)
    : impl_(std::make_unique<Impl>(std::move(history), writer, at_unix_ms, std::move(decide), parts)) {}
Append::~Append() = default;

std::vector<Action> Append::start() {
  return impl_->catchup.ask();
}

std::vector<Action> Append::on(const Event& event) {
  Impl& me = *impl_;
  if (me.state == Impl::State::advising) return me.on_advised();       // whatever came of it
  if (std::holds_alternative<AdvisedObject>(event)) return me.sync();  // of a planted fault
  if (me.state == Impl::State::creating) return me.on_created(event);
  const bool is_of_fold = me.state == Impl::State::creating_fold || me.state == Impl::State::syncing_fold ||
                          me.state == Impl::State::reading_fold;
  if (is_of_fold) return me.on_fold(event);
  if (me.state == Impl::State::catching_up) {
    if (me.is_own_come_back(event)) return me.sync();
    auto stands = me.catchup.on(event);
    if (!stands.ok()) return me.fail(std::move(stands).error());
    if (stands.value() == Catchup::Next::wait) return {};
    return stands.value() == Catchup::Next::ask ? me.catchup.ask() : me.decide_on_prefix();
  }
  if (me.state == Impl::State::rereading) return me.on_reread(event);
  if (auto failure = journal_failure(event)) return me.fail(std::move(*failure));
  switch (me.state) {
    case Impl::State::reading_back:
      return me.on_read_back(std::get<GotObject>(event).bytes);
    case Impl::State::syncing:
      UNBROKEN_POINT("journal.after_sync");
      if (UNBROKEN_MUTANT("no_reread_after_sync")) return me.advise();
      return me.reread();
    case Impl::State::standing_down:
      return me.on_stood_down(std::get<GotObject>(event).bytes);
    case Impl::State::rereading:
    case Impl::State::catching_up:
    case Impl::State::held:
    case Impl::State::creating_fold:
    case Impl::State::syncing_fold:
    case Impl::State::reading_fold:
    case Impl::State::creating:
    case Impl::State::advising:
    case Impl::State::over:
      break;
  }
  UNBROKEN_CHECK(false);
}

std::vector<Action> Append::go_on() {
  impl_->is_held = false;
  return impl_->state == Impl::State::held ? impl_->decide_on_prefix() : std::vector<Action>();
}

bool Append::may_stand() const {
  return impl_->may_stand;
}

bool Append::is_over() const {
  return impl_->state == Impl::State::over;
}

Result<Appended> Append::take() {
  UNBROKEN_CHECK(is_over());
  Impl& me = *impl_;
  if (me.error) return std::move(*me.error);
  std::string hint = me.is_appended && me.is_hint_left ? me.hint() : "";
  Appended out{me.catchup.take_history(), std::nullopt, {}, std::move(hint)};
  if (!me.is_appended) return out;
  UNBROKEN_DO(out.history.apply(me.encoded.record, me.encoded.digest));
  out.record = std::move(me.encoded.record);
  out.digest = me.encoded.digest;
  return out;
}

}  // namespace unbroken
