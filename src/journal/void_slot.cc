#include "journal/void_slot.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/point.h"
#include "journal/hint.h"
#include "journal/read/catchup.h"

namespace unbroken {

namespace {

/// The answer to a create may be lost with the record; again and again means that the storage does not work.
constexpr int kLossesMax = 8;

Error not_to_be_voided(std::string why) {
  return Error(Code::bad_argument, std::move(why));
}

}  // namespace

struct VoidSlot::Impl {
  enum class State : std::uint8_t {
    listing,
    hinting,
    following,
    syncing,
    rereading_prefix,
    rereading_junk,
    creating,
    reading_back,
    syncing_void,
    rereading_void,
    advising,
    over
  };

  Impl(std::uint64_t wanted, Nonce nonce, std::int64_t at)
      : slot(wanted), writer(nonce), at_unix_ms(at), follow(History{}) {}

  std::vector<Action> fail(Error why) {
    error = std::move(why);
    state = State::over;
    return {};
  }

  std::vector<Action> get(State next, std::uint64_t n) {
    state = next;
    return {GetObject{slot_key(n), kRecordBytesRead}};
  }

  std::vector<Action> sync(State next) {
    state = next;
    return {SyncPrefix{std::string(kJournalPrefix)}};
  }

  std::vector<Action> on_followed(const GotObject& got) {
    const std::uint64_t next = follow.history().next_slot();
    const bool is_next = got.key == slot_key(next);
    if (is_next) seen = got.bytes;
    auto step = follow.on(got.bytes);
    if (!step.ok()) {
      const bool is_junk_at_head = step.is(Code::journal_unreadable) && !is_next && !got.bytes;
      return is_junk_at_head ? at_junk() : fail(std::move(step).error());
    }
    if (follow.history().next_slot() > slot)
      return fail(not_to_be_voided(
          fmt::format("journal slot {} is not damaged, or a later slot declares it void already", slot)));
    if (step.value() == Follow::Step::head)
      return fail(not_to_be_voided(fmt::format("journal slot {} is not there", slot)));
    return {follow.ask()};
  }

  std::vector<Action> at_junk() {
    const History& prefix = follow.history();
    if (prefix.next_slot() != slot)
      return fail(not_to_be_voided(
          fmt::format("journal slot {} is the one that is damaged, not {}", prefix.next_slot(), slot)));
    if (slot == 0)
      return fail(Error(Code::journal_unreadable, "slot 0 says which run this is: nothing can stand for it"));
    const bool is_hinted = hint && hint->run == prefix.genesis()->run && hint->slot > slot;
    if (is_hinted || highest_listed > slot)
      return fail(not_to_be_voided(fmt::format("journal slot {} is not the last: {} slots were there", slot,
                                               std::max(is_hinted ? hint->slot : 0, highest_listed) + 1)));
    junk = *seen;
    return sync(State::syncing);
  }

  /// What the decision rests on is durable, whoever wrote it, and reads as before.
  std::vector<Action> on_prefix(const std::optional<std::string>& bytes) {
    const auto decoded = bytes ? decode_record(*bytes) : Error(Code::not_found, "gone");
    if (!decoded.ok() || decoded.value().digest != follow.history().head())
      return fail(Error(Code::journal_unreadable, "the journal changed underneath"));
    return get(State::rereading_junk, slot);
  }

  std::vector<Action> on_junk(const std::optional<std::string>& bytes) {
    if (bytes != junk)
      return fail(not_to_be_voided(fmt::format(
          "journal slot {} reads otherwise each time: the storage or the way to it fails", slot)));
    history = follow.take();
    const Sha256 previous = history.head();
    history.skip_void(slot, sha256(as_bytes(junk)));
    auto record = encode_record({slot + 1, writer, previous, at_unix_ms, Void{slot, sha256(as_bytes(junk))}});
    if (!record.ok()) return fail(std::move(record).error());
    encoded = std::move(record).value();
    if (auto fits = history.check(encoded.record); !fits.ok()) return fail(std::move(fits).error());
    return create();
  }

  std::vector<Action> create() {
    state = State::creating;
    UNBROKEN_POINT("void.before_create");
    return {CreateObject{slot_key(slot + 1), encoded.bytes}};
  }

  std::vector<Action> on_created(const Event& event) {
    UNBROKEN_POINT("void.after_create");
    create_error.reset();
    if (const auto* failed = std::get_if<ActionFailed>(&event)) create_error = failed->error;
    return get(State::reading_back, slot + 1);
  }

  /// Another process may have said the same; then its record is as good.
  std::vector<Action> on_read_back(const std::optional<std::string>& bytes) {
    if (!bytes && create_error) return fail(std::move(*create_error));
    if (!bytes) return on_loss();
    auto decoded = decode_record(*bytes);
    if (!decoded.ok()) return fail(Error(Code::journal_unreadable, decoded.error().what()));
    if (auto fits = history.check(decoded.value().record); !fits.ok()) return fail(std::move(fits).error());
    stands = std::move(decoded).value();
    return sync(State::syncing_void);
  }

  std::vector<Action> on_reread(const std::optional<std::string>& bytes) {
    const auto decoded = bytes ? decode_record(*bytes) : Error(Code::not_found, "gone");
    if (!decoded.ok() || decoded.value().digest != stands.digest) return on_loss();
    if (auto applied = history.apply(stands.record, stands.digest); !applied.ok())
      return fail(std::move(applied).error());
    UNBROKEN_POINT("void.appended");
    state = State::advising;
    const Hint now{history.genesis()->run, slot + 1, stands.digest, std::nullopt};
    return {AdviseObject{std::string(kHintKey), encode_hint(now)}};
  }

  std::vector<Action> on_loss() {
    if (++losses > kLossesMax)
      return fail(Error(Code::unavailable,
                        fmt::format("the storage lost journal slot {} {} times", slot + 1, kLossesMax)));
    return create();
  }

  const std::uint64_t slot;
  const Nonce writer;
  const std::int64_t at_unix_ms;
  State state = State::listing;
  Follow follow;
  std::uint64_t highest_listed = 0;
  std::optional<Hint> hint;
  std::optional<std::string> seen;
  std::string junk;
  History history;
  EncodedRecord encoded;
  DecodedRecord stands;
  std::optional<Error> create_error;
  int losses = 0;
  std::optional<Error> error;
};

VoidSlot::VoidSlot(std::uint64_t slot, Nonce writer, std::int64_t at_unix_ms)
    : impl_(std::make_unique<Impl>(slot, writer, at_unix_ms)) {}
VoidSlot::~VoidSlot() = default;

std::vector<Action> VoidSlot::start() {
  return {ListPrefix{std::string(kJournalPrefix)}};
}

std::vector<Action> VoidSlot::on(const Event& event) {
  using State = Impl::State;
  Impl& me = *impl_;
  if (me.state == State::advising) {
    me.state = State::over;  // whatever came of it
    return {};
  }
  if (me.state == State::hinting) {
    // Advisory: what cannot be read says nothing.
    if (const auto* got = std::get_if<GotObject>(&event); got != nullptr && got->bytes)
      if (auto hint = decode_hint(*got->bytes); hint.ok()) me.hint = std::move(hint).value();
    me.state = State::following;
    return {me.follow.ask()};
  }
  if (me.state == State::creating) return me.on_created(event);
  if (auto failure = journal_failure(event)) return me.fail(std::move(*failure));
  const auto* got = std::get_if<GotObject>(&event);
  switch (me.state) {
    case State::listing:
      for (const std::string& name : std::get<ListedPrefix>(event).names)
        me.highest_listed = std::max(me.highest_listed, slot_from_name(name).value_or(0));
      me.state = State::hinting;
      return {GetObject{std::string(kHintKey), kHintBytesRead}};
    case State::following:
      return me.on_followed(*got);
    case State::syncing:
      return me.get(State::rereading_prefix, me.slot - 1);
    case State::rereading_prefix:
      return me.on_prefix(got->bytes);
    case State::rereading_junk:
      return me.on_junk(got->bytes);
    case State::reading_back:
      return me.on_read_back(got->bytes);
    case State::syncing_void:
      return me.get(State::rereading_void, me.slot + 1);
    case State::rereading_void:
      return me.on_reread(got->bytes);
    case State::hinting:
    case State::creating:
    case State::advising:
    case State::over:
      break;
  }
  UNBROKEN_CHECK(false);
}

bool VoidSlot::is_over() const {
  return impl_->state == Impl::State::over;
}

Result<History> VoidSlot::take() {
  UNBROKEN_CHECK(is_over());
  if (impl_->error) return std::move(*impl_->error);
  return std::move(impl_->history);
}

}  // namespace unbroken
