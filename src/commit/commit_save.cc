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
    finishing_shard,
    creating,
    reading_back,
    syncing_created,
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
    return encode_manifest_of_receipt();
  }

  Result<> encode_manifest_of_receipt() {
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
    UNBROKEN_TRY(sealed, encode_manifest(manifest));
    to_create = {{receipt_key(ticket.save, 0), {&receipt_text, kReceiptBytesMax}},
                 {manifest_key(ticket.save, sealed.sha256), {&sealed.text, kManifestBytesMax}}};
    return Done{};
  }

  /// Of this save: what another machine is asked for is the journal's.
  bool is_mine(const Event& event) const {
    const auto name = [](const auto& e) -> std::string_view {
      if constexpr (requires { e.key; })
        return e.key;
      else
        return e.prefix;
    };
    return std::visit(name, event).starts_with(prefix());
  }

  /// A shard that is on its way has its name already; its bytes are waited for
  /// last.
  std::vector<Action> write_objects() {
    UNBROKEN_POINT("commit.before_write");
    made = {shard_key(ticket.save, 0, ticket.nonce), index_key(ticket.save, 0, ticket.nonce),
            sums_key(ticket.save, 0, ticket.nonce)};
    std::vector<Action> actions{WriteObject{made[1], {BufferRef::of(index_text)}},
                                WriteObject{made[2], {BufferRef::of(sums_bytes)}}};
    if (!content.is_shard_written && !content.begun) actions.push_back(write_shard());
    waiting_for = actions.size();
    return actions;
  }
  Action write_shard() { return WriteObject{made[0], {content.image}, content.begun}; }

  std::vector<Action> finish_shard() {
    if (!content.begun) return create_objects();
    state = State::finishing_shard;
    return {write_shard()};
  }

  /// Receipt and manifest, or what of them is to be asked for again.
  std::vector<Action> create_objects() {
    UNBROKEN_POINT("commit.before_receipt");
    state = State::creating;
    create_errors.clear();
    std::vector<Action> actions;
    for (const auto& [key, object] : to_create) actions.push_back(CreateObject{key, *object.text});
    waiting_for = actions.size();
    UNBROKEN_POINT("commit.before_manifest");
    return actions;
  }

  /// Whatever a create answered, the name says whose object it is.
  std::vector<Action> on_create(const ActionFailed* failed) {
    if (failed != nullptr) create_errors.emplace(failed->key, failed->error);
    if (--waiting_for > 0) return {};
    state = State::reading_back;
    std::vector<Action> actions;
    for (const auto& [key, object] : to_create) actions.push_back(GetObject{key, object.bytes_max});
    waiting_for = actions.size();
    return actions;
  }

  std::vector<Action> on_read_back(const GotObject& got) {
    const auto object = to_create.find(got.key);
    if (got.bytes == *object->second.text) {
      made.push_back(got.key);
      to_create.erase(object);
    } else if (got.bytes) {
      return fail(Error(Code::mismatch, fmt::format("{}: another writer's object stands there", got.key)));
    } else if (const auto refused = create_errors.find(got.key); refused != create_errors.end()) {
      return fail(std::move(refused->second));
    } else if (creates_left == 1) {
      return fail(Error(Code::unavailable, fmt::format("create {}: the storage did not say "
                                                       "whether it did, and it is not there "
                                                       "after {} tries",
                                                       got.key, kCreatesMax)));
    }
    if (--waiting_for > 0) return {};
    if (to_create.empty()) return sync_created();
    // The answer was lost, and so was the request.
    --creates_left;
    return create_objects();
  }

  std::vector<Action> sync_created() {
    state = State::syncing_created;
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
    state = State::appending;
    return append.go_on();
  }

  /// The journal is read to its head, and what was read made durable, beside
  /// all that is written.
  std::vector<Action> start_append() {
    Commit commit{.save = ticket.save,
                  .manifest = sealed.sha256,
                  .manifest_bytes = sealed.text.size(),
                  .state_bytes = content.state_bytes,
                  .metrics = content.metrics,
                  .health = content.health,
                  .tags = content.tags};
    const auto& best = history.policy().best;
    static_cast<void>(keep_metrics_that_fit(commit, best ? best->metric : std::string()));
    return append.start(std::move(history), ticket.append_nonce, ticket.at_unix_ms,
                        commit_decision(ticket.open, std::move(commit), fate), Append::Parts::two);
  }

  std::vector<Action> on_appended(Result<Appended> appended) {
    if (!appended.ok()) return fail(std::move(appended).error());
    history = std::move(appended.value().history);
    hint = std::move(appended.value().hint);
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
  std::size_t waiting_for = 0;  // answers
  struct ToCreate {
    const std::string* text;
    std::uint64_t bytes_max;
  };
  std::map<std::string, ToCreate> to_create;  // what is not known to stand yet
  std::map<std::string, Error> create_errors;
  static constexpr int kCreatesMax = 3;
  int creates_left = kCreatesMax;
  std::map<std::string, std::uint64_t> expected;  // what has to be there, and how long
  std::string index_text, sums_bytes, receipt_text, hint;
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
  std::vector<Action> actions = me.start_append();
  const bool is_late = UNBROKEN_MUTANT("receipt_before_fsync");
  for (Action& action : is_late ? me.create_objects() : me.write_objects())
    actions.push_back(std::move(action));
  return actions;
}

std::vector<Action> CommitSave::on(const Event& event) {
  using State = Impl::State;
  Impl& me = *impl_;
  if (me.state == State::over) return {};  // late answers of actions that were asked for together
  if (!me.is_mine(event))
    return me.append.on(event, [&](auto appended) { return me.on_appended(std::move(appended)); });
  const auto* failed = std::get_if<ActionFailed>(&event);
  if (failed != nullptr && me.state != State::creating) return me.fail(failed->error);
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
      return me.finish_shard();
    case State::finishing_shard:
      return me.create_objects();
    case State::creating:
      return me.on_create(failed);
    case State::reading_back:
      return me.on_read_back(std::get<GotObject>(event));
    case State::syncing_created:
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
  return Committed{me.fate, std::move(me.history), written, std::move(me.hint)};
}

}  // namespace unbroken
