#include "restore/read_save.h"

#include <map>

#include "base/check.h"
#include "format/keys.h"
#include "format/sums.h"

namespace unbroken {

struct ReadSave::Impl {
  enum class State : std::uint8_t { manifest, receipt, index, sums, shard, over };

  Impl(Commit c, Depth d) : commit(std::move(c)), depth(d) {}

  std::vector<Action> over() {
    state = State::over;
    return {};
  }
  std::vector<Action> fail(Error why) {
    error = std::move(why);
    return over();
  }
  void add(Damage damage) {
    if (const auto it = unreadable.find(damage.object); it != unreadable.end()) damage.what = it->second;
    found.damage.push_back(std::move(damage));
  }
  std::string manifest_name() const { return manifest_key(commit.save, commit.manifest); }

  /// The manifest vouches for the rest; without it nothing else can be believed.
  std::vector<Action> on_manifest(const std::optional<std::string>& bytes) {
    if (!bytes) {
      add({manifest_name(), 0, "missing"});
      return over();
    }
    auto decoded = decode_manifest(*bytes, commit.manifest);
    if (decoded.is(Code::unsupported)) return fail(std::move(decoded).error().with(manifest_name()));
    if (!decoded.ok() || bytes->size() != commit.manifest_bytes) {
      add({manifest_name(), 0,
           decoded.ok() ? "is not as long as the COMMIT record says" : decoded.error().what()});
      return over();
    }
    manifest = std::move(decoded).value();
    if (manifest.receipts.size() != 1)
      return fail(
          Error(Code::unsupported, manifest_name() + ": a save of several writers: use a newer unbroken"));
    state = State::receipt;
    return {GetObject{receipt_key(commit.save, 0), kReceiptBytesMax}};
  }

  const Receipt& receipt() const { return manifest.receipts.front(); }
  std::uint64_t chunk_bytes() const { return index ? index->chunk_bytes : kChunkBytes; }
  std::uint64_t sums_bytes_max() const {
    return Xxh128::kBytes * (chunk_count(receipt().shard_bytes, chunk_bytes()) + 1);
  }

  std::vector<Action> on_index(std::optional<std::string> text) {
    index_text = std::move(text);
    if (index_text)
      if (auto opened = open_index(receipt(), *index_text); opened.ok()) index = std::move(opened).value();
    state = State::sums;
    return {GetObject{sums_key(commit.save, 0, receipt().nonce), sums_bytes_max()}};
  }

  std::vector<Action> after_sums() {
    if (depth == Depth::description) return conclude();
    state = State::shard;
    return {HashObject{shard_key(commit.save, 0, receipt().nonce), chunk_bytes()}};
  }

  std::vector<Action> conclude() {
    Evidence evidence;
    if (receipt_text) evidence.receipt = *receipt_text;
    if (index_text) evidence.index = *index_text;
    if (sums_text) evidence.sums = *sums_text;
    evidence.shard = shard;
    auto damage = verify_writer(receipt(), evidence);
    if (!damage.ok()) return fail(std::move(damage).error());
    const std::string shard_name = shard_key(commit.save, 0, receipt().nonce);
    for (Damage& d : damage.value()) {
      // Not looked at is not missing.
      if (depth == Depth::description && d.object == shard_name) continue;
      add(std::move(d));
    }
    if (!index || !sums_text) return over();
    if (auto chunks = open_sums(receipt(), *index, *sums_text); chunks.ok())
      found.state = SavedState{commit, manifest, std::move(*index), std::move(chunks).value(), shard_name};
    return over();
  }

  Commit commit;
  Depth depth;
  State state = State::manifest;
  Manifest manifest;
  std::optional<std::string> receipt_text, index_text, sums_text;
  std::optional<Index> index;
  std::optional<ShardEvidence> shard;
  std::map<std::string, std::string> unreadable;  // key -> what is wrong with it as a whole
  Found found;
  std::optional<Error> error;
};

ReadSave::ReadSave(Commit commit, Depth depth) : impl_(std::make_unique<Impl>(std::move(commit), depth)) {}
ReadSave::~ReadSave() = default;

std::vector<Action> ReadSave::start() {
  return {GetObject{impl_->manifest_name(), kManifestBytesMax}};
}

std::vector<Action> ReadSave::on(const Event& event) {
  using State = Impl::State;
  Impl& me = *impl_;
  // An object that is longer than any of its kind, or that ends while it is read, is damage; one that is not
  // there too; everything else that went wrong says nothing about the bytes.
  std::optional<std::string> text;
  bool is_unreadable = false;
  if (const auto* failed = std::get_if<ActionFailed>(&event)) {
    is_unreadable = failed->error.code() == Code::corrupt;
    const bool is_missing = failed->error.code() == Code::not_found;
    if (!is_unreadable && !is_missing) return me.fail(Error(failed->error).with(failed->key));
    if (is_unreadable) {
      me.unreadable[failed->key] = failed->error.what();
      text = std::string();  // an object of no content fits no digest
    }
  } else if (const auto* got = std::get_if<GotObject>(&event)) {
    text = got->bytes;
    if (text) me.found.bytes_read += text->size();
  }
  switch (me.state) {
    case State::manifest:
      return me.on_manifest(text);
    case State::receipt:
      me.receipt_text = std::move(text);
      me.state = State::index;
      return {GetObject{index_key(me.commit.save, 0, me.receipt().nonce), kIndexBytesMax}};
    case State::index:
      return me.on_index(std::move(text));
    case State::sums:
      me.sums_text = std::move(text);
      return me.after_sums();
    case State::shard:
      if (const auto* hashed = std::get_if<HashedObject>(&event)) {
        me.shard = ShardEvidence{hashed->bytes, hashed->chunks};
        me.found.bytes_read += hashed->bytes;
      } else if (is_unreadable) {
        me.shard = ShardEvidence{};
      }
      return me.conclude();
    case State::over:
      break;
  }
  UNBROKEN_CHECK(false);
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
