#include "commit/commit_save.h"

#include <fmt/format.h>

#include <map>

#include "base/check.h"
#include "base/mutant.h"
#include "base/point.h"
#include "commit/sub_append.h"
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
    reading_manifest,
    syncing_manifest,
    checking_names,
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

  std::uint64_t shard_bytes() const {
    return content.is_shard_written ? content.index.file_bytes : content.image.bytes().size();
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
               .shard_bytes = shard_bytes(),
               .index = content_ref(index_text),
               .sums = content_ref(sums_bytes)};
    UNBROKEN_TRY(receipt_text, encode_receipt(receipt));
    return Done{};
  }

  std::vector<Action> write_objects() {
    UNBROKEN_POINT("commit.before_write");
    waiting_for = 3;
    made = {shard_key(ticket.save, 0, ticket.nonce), index_key(ticket.save, 0, ticket.nonce),
            sums_key(ticket.save, 0, ticket.nonce)};
    std::vector<Action> actions{WriteObject{made[1], {BufferRef::of(index_text)}},
                                WriteObject{made[2], {BufferRef::of(sums_bytes)}}};
    if (content.is_shard_written)
      --waiting_for;
    else
      actions.insert(actions.begin(), WriteObject{made[0], {content.image}, content.begun});
    return actions;
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
    manifest.health = content.health;
    // No number of metrics is a reason to lose a save: all of them are in the file of metrics.
    for (const auto& [name, value] : content.metrics)
      if (manifest.metrics.size() < kManifestTextsMax && name.size() <= kManifestKeyBytesMax)
        manifest.metrics.emplace(name, value);
    auto encoded = encode_manifest(manifest);
    if (!encoded.ok()) return fail(std::move(encoded).error());
    sealed = std::move(encoded).value();
    UNBROKEN_POINT("commit.before_manifest");
    state = State::creating_manifest;
    return {CreateObject{manifest_key(ticket.save, sealed.sha256), sealed.text}};
  }

  /// Whatever a create answered, the name says whose object it is.
  std::vector<Action> read_back(const ActionFailed* failed, std::string key, std::uint64_t bytes_max) {
    create_error.reset();
    if (failed != nullptr) create_error = failed->error;
    return {GetObject{std::move(key), bytes_max}};
  }

  template <class Next, class Again>
  std::vector<Action> on_read_back(const GotObject& got, const std::string& mine, Next next, Again again) {
    if (got.bytes == mine) {
      creates_left = kCreatesMax;
      made.push_back(got.key);
      return next();
    }
    if (got.bytes)
      return fail(Error(Code::mismatch, fmt::format("{}: another writer's object stands there", got.key)));
    if (create_error) return fail(std::move(*create_error));
    // The answer was lost, and so was the request.
    if (--creates_left > 0) return again();
    return fail(
        Error(Code::unavailable, fmt::format("create {}: the storage did not say whether it did, and it is "
                                             "not there after {} tries",
                                             got.key, kCreatesMax)));
  }

  std::vector<Action> sync_manifest() {
    state = State::syncing_manifest;
    return {SyncPrefix{prefix()}};
  }

  /// A storage that restarted may have forgotten names before they were synced: what COMMIT names is looked
  /// up afresh.
  std::vector<Action> check_names() {
    expected = {{shard_key(ticket.save, 0, ticket.nonce), shard_bytes()},
                {index_key(ticket.save, 0, ticket.nonce), index_text.size()},
                {sums_key(ticket.save, 0, ticket.nonce), sums_bytes.size()},
                {receipt_key(ticket.save, 0), receipt_text.size()},
                {manifest_key(ticket.save, sealed.sha256), sealed.text.size()}};
    if (UNBROKEN_MUTANT("no_reread_after_sync") || UNBROKEN_MUTANT("receipt_before_fsync"))
      return append_commit();
    state = State::checking_names;
    std::vector<Action> actions;
    for (const auto& [key, bytes] : expected) actions.push_back(StatObject{key});
    return actions;
  }

  std::vector<Action> on_checked(const StatedObject& stated) {
    const auto it = expected.find(stated.key);
    if (stated.bytes != it->second)
      return fail(
          Error(Code::unavailable, fmt::format("{}: the storage lost it after it was synced", stated.key)));
    expected.erase(it);
    return expected.empty() ? append_commit() : std::vector<Action>();
  }

  std::vector<Action> append_commit() {
    UNBROKEN_POINT("commit.before_append");
    Commit commit{.save = ticket.save,
                  .manifest = sealed.sha256,
                  .manifest_bytes = sealed.text.size(),
                  .state_bytes = content.state_bytes,
                  .metrics = content.metrics,
                  .health = content.health,
                  .tags = content.tags};
    const auto& best = history.policy().best;
    static_cast<void>(keep_metrics_that_fit(commit, best ? best->metric : std::string()));
    state = State::appending;
    return append.start(std::move(history), ticket.append_nonce, ticket.at_unix_ms,
                        commit_decision(ticket.open, std::move(commit), fate));
  }

  std::vector<Action> on_appended(Result<Appended> appended) {
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
  static constexpr int kCreatesMax = 3;
  int creates_left = kCreatesMax;
  std::optional<Error> create_error;
  std::map<std::string, std::uint64_t> expected;  // what has to be there, and how long
  std::string index_text, sums_bytes, receipt_text;
  Receipt receipt;
  SealedManifest sealed;
  CommitFate fate = CommitFate::dropped;
  SubAppend append;
  std::vector<std::string> made;  // by this save, in the order in which it may go
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
  if (me.state == State::appending)
    return me.append.on(event, [&](auto appended) { return me.on_appended(std::move(appended)); });
  const auto* failed = std::get_if<ActionFailed>(&event);
  if (failed != nullptr && me.state != State::creating_receipt && me.state != State::creating_manifest)
    return me.fail(failed->error);
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
      me.state = State::reading_receipt;
      return me.read_back(failed, receipt_key(me.ticket.save, 0), kReceiptBytesMax);
    case State::reading_receipt:
      return me.on_read_back(
          std::get<GotObject>(event), me.receipt_text, [&] { return me.create_manifest(); },
          [&] { return me.create_receipt(); });
    case State::creating_manifest:
      me.state = State::reading_manifest;
      return me.read_back(failed, manifest_key(me.ticket.save, me.sealed.sha256), kManifestBytesMax);
    case State::reading_manifest:
      return me.on_read_back(
          std::get<GotObject>(event), me.sealed.text, [&] { return me.sync_manifest(); },
          [&] { return me.create_manifest(); });
    case State::syncing_manifest:
      return me.check_names();
    case State::checking_names:
      return me.on_checked(std::get<StatedObject>(event));
    case State::appending:
    case State::over:
      break;
  }
  UNBROKEN_CHECK(false);
}

std::optional<std::vector<std::string>> CommitSave::debris() const {
  if (impl_->append.may_stand()) return std::nullopt;
  return impl_->made;
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
