#include "restore/read_save.h"

#include <algorithm>

#include "base/check.h"
#include "base/newer.h"
#include "format/keys.h"
#include "format/shard.h"

namespace unbroken {

struct ReadSave::Impl {
  enum class State : std::uint8_t { manifest, receipt, index, sums, shard, over };
  using Look = WriterCheck::Look;

  Impl(Commit c, Depth d) : commit(std::move(c)), depth(d) {}

  std::vector<Action> over() {
    state = State::over;
    return {};
  }
  std::vector<Action> fail(Error why) {
    error = std::move(why);
    return over();
  }
  std::string manifest_name() const { return manifest_key(commit.save, commit.manifest); }

  std::vector<Action> read_manifest() {
    return {GetObject{manifest_name(), std::min(commit.manifest_bytes, kManifestBytesMax)}};
  }

  /// The manifest vouches for the rest; without it nothing else can be believed.
  std::vector<Action> on_manifest(const Look& look) {
    auto decoded =
        look.ok() ? decode_manifest(look.value(), commit.manifest) : Result<Manifest>(look.error());
    if (decoded.is(Code::unsupported)) return fail(std::move(decoded).error().with(manifest_name()));
    const bool is_whole = decoded.ok() && look.value().size() == commit.manifest_bytes;
    if (!is_whole) {
      found.damage.push_back({manifest_name(), 0,
                              decoded.ok()                  ? "is not as long as the COMMIT record says"
                              : decoded.is(Code::not_found) ? "missing"
                                                            : decoded.error().what()});
      return over();
    }
    manifest = std::move(decoded).value();
    if (manifest.receipts.size() != 1)
      return fail(written_by_newer(manifest_name() + ": a save of several writers"));
    check.emplace(manifest.receipts.front());
    return ask(State::receipt);
  }

  std::vector<Action> ask(State next) {
    state = next;
    const Receipt& receipt = check->expected();
    switch (next) {
      case State::receipt:
        return {GetObject{check->receipt_name(), kReceiptBytesMax}};
      case State::index:
        return {GetObject{check->index_name(), std::min(receipt.index.bytes, kIndexBytesMax)}};
      case State::sums:
        return {GetObject{check->sums_name(), check->sums_bytes_max()}};
      case State::shard:
        if (depth == Depth::description) return conclude();
        // Without both, its content cannot be judged.
        if (!check->index || !check->chunks) return {StatObject{check->shard_name()}};
        return {HashObject{check->shard_name(), check->index->chunk_bytes, check->index->file_bytes,
                           std::min(check->index->data_offset, kHeaderBytesMax + 2 * kPageBytes)}};
      case State::manifest:
      case State::over:
        break;
    }
    UNBROKEN_CHECK(false);
  }

  /// `look` is nullptr where the object could not be read now.
  std::vector<Action> on_look(const Look* look) {
    switch (state) {
      case State::manifest:
        return look != nullptr ? on_manifest(*look) : over();
      case State::receipt:
        if (look != nullptr) check->on_receipt(*look);
        return ask(State::index);
      case State::index:
        if (look != nullptr)
          if (auto judged = check->on_index(*look); !judged.ok()) return fail(std::move(judged).error());
        return ask(State::sums);
      case State::sums:
        if (look != nullptr) check->on_sums(*look);
        return ask(State::shard);
      case State::shard:
        if (look != nullptr) check->on_shard(look->error());  // content comes as hashes
        return conclude();
      case State::over:
        break;
    }
    UNBROKEN_CHECK(false);
  }

  std::vector<Action> conclude() {
    found.damage = std::move(check->damage);
    if (check->index && check->chunks)
      found.state = SavedState{commit, manifest, std::move(*check->index), std::move(*check->chunks),
                               check->shard_name()};
    return over();
  }

  Commit commit;
  Depth depth;
  State state = State::manifest;
  Manifest manifest;
  std::optional<WriterCheck> check;
  Found found;
  std::optional<Error> error;
};

ReadSave::ReadSave(Commit commit, Depth depth) : impl_(std::make_unique<Impl>(std::move(commit), depth)) {}
ReadSave::~ReadSave() = default;

std::vector<Action> ReadSave::start() {
  return impl_->read_manifest();
}

std::vector<Action> ReadSave::on(const Event& event) {
  Impl& me = *impl_;
  if (const auto* failed = std::get_if<ActionFailed>(&event)) {
    // An object that is longer than it may be, that ends while it is read or that is no file is damage; one
    // that is not there too; everything else that went wrong says nothing about the bytes.
    const Code code = failed->error.code();
    const Impl::Look look = failed->error;
    // It stands in place of data/ itself, so that no checkpoint can be reached, and says nothing of any.
    if (code == Code::bad_argument)
      return me.fail(Error(Code::not_found, "no checkpoint can be reached: " + failed->error.what())
                         .next(failed->error.next_command()));
    if (code == Code::corrupt || code == Code::not_found) return me.on_look(&look);
    if (me.depth != Depth::audit || code != Code::unavailable) return me.fail(failed->error);
    me.found.unread.push_back({failed->key, failed->error});
    return me.on_look(nullptr);
  }
  if (const auto* hashed = std::get_if<HashedObject>(&event)) {
    if (!hashed->chunks.empty()) me.found.bytes_read += hashed->bytes;
    me.check->on_shard(ShardEvidence{hashed->bytes, hashed->chunks, hashed->head});
    return me.conclude();
  }
  if (const auto* stated = std::get_if<StatedObject>(&event); stated != nullptr && stated->bytes) {
    me.check->on_shard(ShardEvidence{*stated->bytes, {}});
    return me.conclude();
  }
  const auto* got = std::get_if<GotObject>(&event);
  const bool is_there = got != nullptr && got->bytes;
  if (is_there) me.found.bytes_read += got->bytes->size();
  const Impl::Look look = is_there ? Impl::Look(*got->bytes) : Impl::Look(Error(Code::not_found, "missing"));
  return me.on_look(&look);
}

bool ReadSave::is_over() const {
  return impl_->state == Impl::State::over;
}

Result<ReadSave::Found> ReadSave::take() {
  UNBROKEN_CHECK(is_over());
  if (impl_->error) return std::move(*impl_->error);
  return std::move(impl_->found);
}

}  // namespace unbroken
