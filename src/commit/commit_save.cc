#include "commit/commit_save.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/point.h"
#include "format/keys.h"
#include "format/sums.h"

namespace unbroken {

struct CommitSave::Impl {
  enum class State : std::uint8_t {
    writing,
    syncing_data,
    creating_receipt,
    reading_receipt,
    creating_manifest,
    syncing_manifest,
    appending,
    writing_late,
    over
  };

  Impl(SaveTicket t, SaveContent c, History h)
      : ticket(std::move(t)), content(std::move(c)), history(std::move(h)) {}

  std::vector<Action> fail(Error why) {
    error = std::move(why);
    state = State::over;
    return {};
  }

  std::string prefix() const { return save_prefix(ticket.save); }

  Result<> encode() {
    content.index.save = ticket.save;
    content.index.nonce = ticket.nonce;
    UNBROKEN_TRY(index_text, encode_index(content.index));
    sums_bytes = encode_sums(content.chunks);
    receipt = {.save = ticket.save,
               .writer = 0,
               .nonce = ticket.nonce,
               .life = ticket.life,
               .open = ticket.open,
               .resume = ticket.resume,
               .shard_bytes = content.image.bytes().size(),
               .index = content_ref(index_text),
               .sums = content_ref(sums_bytes)};
    UNBROKEN_TRY(receipt_text, encode_receipt(receipt));
    return Done{};
  }

  std::vector<Action> write_objects() {
    UNBROKEN_POINT("commit.before_write");
    waiting_for = 3;
    return {WriteObject{shard_key(ticket.save, 0, ticket.nonce), {content.image}},
            WriteObject{index_key(ticket.save, 0, ticket.nonce), {BufferRef::of(index_text)}},
            WriteObject{sums_key(ticket.save, 0, ticket.nonce), {BufferRef::of(sums_bytes)}}};
  }

  std::vector<Action> create_receipt() {
    UNBROKEN_POINT("commit.before_receipt");
    state = State::creating_receipt;
    return {CreateObject{receipt_key(ticket.save, 0), receipt_text}};
  }

  std::vector<Action> create_manifest() {
    Manifest manifest;
    manifest.save = ticket.save;
    manifest.world = 1;
    manifest.open = ticket.open;
    manifest.resume = ticket.resume;
    manifest.receipts = {receipt};
    manifest.provenance = content.provenance;
    manifest.metrics = content.metrics;
    auto encoded = encode_manifest(manifest);
    if (!encoded.ok()) return fail(std::move(encoded).error());
    sealed = std::move(encoded).value();
    UNBROKEN_POINT("commit.before_manifest");
    state = State::creating_manifest;
    return {CreateObject{manifest_key(ticket.save, sealed.sha256), sealed.text}};
  }

  std::vector<Action> append_commit() {
    UNBROKEN_POINT("commit.before_append");
    Commit commit{.save = ticket.save,
                  .manifest = sealed.sha256,
                  .manifest_bytes = sealed.text.size(),
                  .state_bytes = content.state_bytes,
                  .metrics = content.metrics,
                  .health = "ok",
                  .tier = "run"};
    append.emplace(std::move(history), ticket.append_nonce, ticket.at_unix_ms,
                   commit_decision(ticket.open, std::move(commit), fate));
    state = State::appending;
    return append->start();
  }

  std::vector<Action> on_append(const Event& event) {
    auto actions = append->on(event);
    if (!append->is_over()) return actions;
    auto appended = append->take();
    if (!appended.ok()) return fail(std::move(appended).error());
    history = std::move(appended.value().history);
    if (UNBROKEN_MUTANT("receipt_before_fsync")) {
      state = State::writing_late;
      return write_objects();
    }
    state = State::over;
    UNBROKEN_POINT("commit.done");
    return {};
  }

  SaveTicket ticket;
  SaveContent content;
  History history;
  State state = State::writing;
  int waiting_for = 0;
  std::string index_text, sums_bytes, receipt_text;
  Receipt receipt;
  SealedManifest sealed;
  CommitFate fate = CommitFate::dropped;
  std::optional<Append> append;
  std::optional<Error> error;
};

CommitSave::CommitSave(SaveTicket ticket, SaveContent content, History history)
    : impl_(std::make_unique<Impl>(std::move(ticket), std::move(content), std::move(history))) {}
CommitSave::~CommitSave() = default;

std::vector<Action> CommitSave::start() {
  Impl& me = *impl_;
  if (auto encoded = me.encode(); !encoded.ok()) return me.fail(std::move(encoded).error());
  if (UNBROKEN_MUTANT("receipt_before_fsync")) return me.create_receipt();
  return me.write_objects();
}

std::vector<Action> CommitSave::on(const Event& event) {
  using State = Impl::State;
  Impl& me = *impl_;
  if (me.state == State::over) return {};  // late answers of actions that were asked for together
  if (me.state == State::appending) return me.on_append(event);
  const auto* failed = std::get_if<ActionFailed>(&event);
  if (failed != nullptr && me.state != State::creating_receipt && me.state != State::creating_manifest)
    return me.fail(Error(failed->error).with(failed->key));
  switch (me.state) {
    case State::writing:
    case State::writing_late:
      if (--me.waiting_for > 0) return {};
      if (me.state == State::writing_late) {
        me.state = State::over;
        return {};
      }
      me.state = State::syncing_data;
      return {SyncPrefix{me.prefix()}};
    case State::syncing_data:
      return me.create_receipt();
    case State::creating_receipt:
      // Whatever the answer, the name says whose receipt it is.
      if (failed != nullptr) me.error = failed->error;
      me.state = State::reading_receipt;
      return {GetObject{receipt_key(me.ticket.save, 0), kReceiptBytesMax}};
    case State::reading_receipt: {
      const auto& bytes = std::get<GotObject>(event).bytes;
      if (!bytes)
        return me.fail(me.error ? std::move(*me.error)
                                : Error(Code::unavailable, "the receipt is not there after it was created"));
      me.error.reset();
      if (*bytes != me.receipt_text)
        return me.fail(Error(Code::mismatch, fmt::format("{}: another writer's receipt stands there",
                                                         receipt_key(me.ticket.save, 0))));
      return me.create_manifest();
    }
    case State::creating_manifest:
      // Named by its content: one that exists already is the same.
      if (failed != nullptr) return me.fail(Error(failed->error).with(failed->key));
      me.state = State::syncing_manifest;
      return {SyncPrefix{me.prefix()}};
    case State::syncing_manifest:
      return me.append_commit();
    case State::appending:
    case State::over:
      break;
  }
  UNBROKEN_CHECK(false);
}

bool CommitSave::may_be_committed() const {
  return impl_->append.has_value();
}

bool CommitSave::is_over() const {
  return impl_->state == Impl::State::over;
}

Result<CommitSave::Committed> CommitSave::take() {
  UNBROKEN_CHECK(is_over());
  Impl& me = *impl_;
  if (me.error) return std::move(*me.error);
  const std::uint64_t written = me.receipt.shard_bytes + me.index_text.size() + me.sums_bytes.size() +
                                me.receipt_text.size() + me.sealed.text.size();
  return Committed{me.fate, std::move(me.history), written};
}

}  // namespace unbroken
