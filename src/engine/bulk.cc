#include "engine/bulk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "base/pages.h"
#include "format/sums.h"
#include "world/parallel.h"

namespace unbroken {

namespace {

/// The tensors of a shard with their targets, in file order.
struct Placed {
  std::uint64_t begin, end;
  std::byte* into;
};

Result<std::vector<Placed>> place(const Index& index, std::span<const TensorTarget> targets) {
  std::map<std::string_view, const IndexedTensor*> by_name;
  for (const IndexedTensor& tensor : index.tensors) by_name.emplace(tensor.name, &tensor);
  std::vector<Placed> placed;
  for (const TensorTarget& target : targets) {
    const auto it = by_name.find(target.name);
    if (it == by_name.end())
      return Error(Code::bad_argument, fmt::format("{}: no such tensor in this checkpoint", target.name));
    if (it->second->bytes != target.into.size())
      return Error(Code::bad_argument, fmt::format("{}: {} bytes saved, room for {}", target.name,
                                                   it->second->bytes, target.into.size()));
    if (!target.into.empty())
      placed.push_back({it->second->offset, it->second->offset + it->second->bytes, target.into.data()});
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
  return placed;
}

/// The first target that ends after `offset`.
auto first_at(const std::vector<Placed>& placed, std::uint64_t offset) {
  return std::partition_point(placed.begin(), placed.end(), [&](const Placed& p) { return p.end <= offset; });
}

/// Copies what `piece`, at `begin` in the file, holds of the tensors that are wanted.
void scatter(const std::vector<Placed>& placed, std::uint64_t begin, Bytes piece) {
  const std::uint64_t end = begin + piece.size();
  for (auto it = first_at(placed, begin); it != placed.end() && it->begin < end; ++it) {
    const std::uint64_t from = std::max(begin, it->begin);
    const std::uint64_t to = std::min(end, it->end);
    std::memcpy(it->into + (from - it->begin), piece.data() + (from - begin), to - from);
  }
}

/// What is expected of an object, and who wants its bytes.
struct Wanted {
  std::uint64_t chunk_bytes;
  std::span<const Xxh128> chunks;  ///< empty: not known
  std::vector<Placed> placed;
};

/// Memory for the blocks that are read at once.
class Blocks {
 public:
  Blocks(std::uint64_t count, std::uint64_t bytes) : memory_(Pages::make(count * bytes)) {
    for (std::uint64_t i = 0; memory_ && i < count; ++i) free_.push_back(memory_.data() + i * bytes);
  }
  explicit operator bool() const { return static_cast<bool>(memory_); }
  /// The one that was used last, which a cache still holds.
  std::byte* take() {
    const std::lock_guard lock(mutex_);
    UNBROKEN_CHECK(!free_.empty());
    std::byte* const block = free_.back();
    free_.pop_back();
    return block;
  }
  void give_back(std::byte* block) {
    const std::lock_guard lock(mutex_);
    free_.push_back(block);
  }

 private:
  Pages memory_;
  std::mutex mutex_;
  std::vector<std::byte*> free_;
};

/// Reads all of an object, on the io lane, which may be nearer to the device than the caller. A worker reads
/// a block, and takes it chunk by chunk while it is in the processor's cache.
Result<std::vector<Xxh128>> read_chunks(const Seams& seams, const ObjectReader& reader, std::string_view key,
                                        const Wanted& wanted, const Deadline& by) {
  const std::uint64_t chunk_bytes = wanted.chunk_bytes;
  std::vector<Xxh128> chunks(chunk_count(reader.bytes(), chunk_bytes));
  const std::uint64_t block_bytes = std::max(kReadBytes / chunk_bytes, std::uint64_t{1}) * chunk_bytes;
  const std::uint64_t count = chunk_count(reader.bytes(), block_bytes);
  const std::uint64_t at_once = std::min<std::uint64_t>(seams.executor.width(Lane::io) + 1, count);
  Blocks blocks(at_once, std::min(block_bytes, reader.bytes()));
  if (!blocks) return Error(Code::unavailable, fmt::format("read {}: no memory for its blocks", key));
  const auto take = [&](std::uint64_t begin, Bytes chunk) {
    const std::uint64_t i = begin / chunk_bytes;
    chunks[i] = xxh128(chunk);
    if (wanted.chunks.empty() || chunks[i] == wanted.chunks[i]) scatter(wanted.placed, begin, chunk);
  };
  const auto read_block = [&](std::uint64_t begin, MutableBytes bytes) -> Result<> {
    UNBROKEN_DO(reader.read(begin, bytes));
    for (std::uint64_t at = 0; at < bytes.size(); at += chunk_bytes)
      take(begin + at, bytes.subspan(at, std::min(chunk_bytes, bytes.size() - at)));
    return Done{};
  };
  const auto read_one = [&](std::size_t i) -> Result<> {
    UNBROKEN_DO(seams.check_piece("read", key, by));
    const std::uint64_t begin = i * block_bytes;
    std::byte* const block = blocks.take();
    auto read = read_block(begin, {block, std::min(block_bytes, reader.bytes() - begin)});
    blocks.give_back(block);
    return read;
  };
  UNBROKEN_DO(parallel_for(seams.executor, Lane::io, count, read_one, Caller::stands_in));
  return chunks;
}

/// One look at the shard.
Result<> load_once(const Seams& seams, std::string_view key, const Index& index, const Wanted& wanted,
                   std::vector<Damage>& damage, const Deadline& by) {
  // Missing, of another kind, or ended while it was read.
  const auto damaged = [&](const Error& why) -> Result<> {
    const bool is_missing = why.code() == Code::not_found;
    if (!is_missing && why.code() != Code::corrupt) return why;
    damage = {{std::string(key), 0, is_missing ? "missing" : why.what()}};
    return Error(Code::corrupt, is_missing ? fmt::format("{}: missing", key) : why.what());
  };
  auto opened = seams.store.open_reader(key, by);
  if (!opened.ok()) return damaged(opened.error());
  const std::unique_ptr<ObjectReader> reader = std::move(opened).value();
  ShardEvidence evidence{reader->bytes(), {}};
  // One of another length is damaged whatever it holds, and its chunks would not lie where the index says.
  if (evidence.bytes == index.file_bytes) {
    auto read = read_chunks(seams, *reader, key, wanted, by);
    if (!read.ok()) return damaged(read.error());
    evidence.chunks = std::move(read).value();
  }
  damage = verify_chunks(index, {wanted.chunks.begin(), wanted.chunks.end()}, evidence);
  if (damage.empty()) return Done{};
  const Damage& first = damage.front();
  return Error(Code::corrupt, fmt::format("{}: at byte {}: {}", first.object, first.offset, first.what));
}

}  // namespace

Result<HashedObject> hash_object(const Seams& seams, const HashObject& wanted, const Deadline& by) {
  UNBROKEN_TRY(const std::unique_ptr<ObjectReader> reader, seams.store.open_reader(wanted.key, by));
  HashedObject out{wanted.key, reader->bytes(), {}, {}};
  if (out.bytes != wanted.bytes) return out;
  out.head.resize(std::min(wanted.head_bytes, wanted.bytes));
  const MutableBytes head = std::as_writable_bytes(std::span(out.head));
  UNBROKEN_TRY(out.chunks, read_chunks(seams, *reader, wanted.key,
                                       {wanted.chunk_bytes, {}, {{0, head.size(), head.data()}}}, by));
  return out;
}

Result<> load_shard(const Seams& seams, std::string_view key, const Index& index,
                    std::span<const Xxh128> chunks, std::span<const TensorTarget> targets,
                    std::vector<Damage>& damage, const Deadline& by) {
  Wanted wanted{index.chunk_bytes, chunks, {}};
  UNBROKEN_TRY(wanted.placed, place(index, targets));
  auto loaded = load_once(seams, key, index, wanted, damage, by);
  if (!loaded.is(Code::corrupt)) return loaded;
  // What comes back the second time is what is there.
  return load_once(seams, key, index, wanted, damage, by);
}

}  // namespace unbroken
