#include "engine/bulk.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "format/sums.h"
#include "world/check_time.h"
#include "world/parallel.h"

namespace unbroken {

namespace {

/// Collects the answers of writes that are in flight.
class InFlight {
 public:
  explicit InFlight(Executor& executor) : executor_(executor) {}
  Completion track() {
    outstanding_.fetch_add(1);
    return [this](Result<> result) {
      if (!result.ok()) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::move(result).error();
      }
      // The notify is the last touch: the waiter may go on, and take this object with it, once the count is
      // zero.
      Executor& executor = executor_;
      outstanding_.fetch_sub(1);
      executor.notify();
    };
  }
  Result<> wait() {
    executor_.join([this] { return outstanding_.load() == 0; });
    const std::lock_guard lock(mutex_);
    if (error_) return *error_;
    return Done{};
  }

 private:
  Executor& executor_;
  std::atomic<std::size_t> outstanding_{0};
  std::mutex mutex_;
  std::optional<Error> error_;
};

struct Piece {
  std::uint64_t offset;
  BufferRef bytes;
};

/// Asked before every piece, so that no call runs on for the length of an object.
Result<> check_piece(const Seams& seams, std::string_view doing, std::string_view key, const Deadline& by) {
  auto in_time = check_time(seams.clock.now(), by);
  return in_time.ok() ? in_time : std::move(in_time).error().with(fmt::format("{} {}", doing, key));
}

}  // namespace

Result<> write_object(const Seams& seams, std::string_view key, std::span<const BufferRef> parts,
                      const Deadline& by) {
  std::vector<Piece> pieces;
  std::uint64_t total = 0;
  for (const BufferRef& part : parts) {
    const std::uint64_t size = part.bytes().size();
    for (std::uint64_t at = 0; at < size; at += kBlockBytes)
      pieces.push_back({total + at, part.slice(at, std::min(kBlockBytes, size - at))});
    total += size;
  }
  UNBROKEN_TRY(const std::unique_ptr<ObjectWriter> writer, seams.store.open_writer(key, total, by));
  InFlight in_flight(seams.executor);
  const auto issued = parallel_for(seams.executor, Lane::io, pieces.size(), [&](std::size_t i) -> Result<> {
    UNBROKEN_DO(check_piece(seams, "write", key, by));
    writer->write(pieces[i].offset, pieces[i].bytes, in_flight.track());
    return Done{};
  });
  const auto written = in_flight.wait();
  UNBROKEN_DO(issued);
  if (!written.ok()) return Error(written.error());
  return writer->finish(by);
}

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

/// Memory for one piece at a time, not touched before it is filled.
class Scratch {
 public:
  MutableBytes of(std::uint64_t bytes) {
    if (bytes > size_) memory_ = std::make_unique_for_overwrite<std::byte[]>(size_ = bytes);
    return {memory_.get(), bytes};
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::uint64_t size_ = 0;
};

/// The first target that ends after `offset`.
auto first_at(const std::vector<Placed>& placed, std::uint64_t offset) {
  return std::partition_point(placed.begin(), placed.end(), [&](const Placed& p) { return p.end <= offset; });
}

/// Reads one chunk and hashes it where it lands: straight in its tensor where one tensor holds all of it.
Result<Xxh128> read_chunk(const ObjectReader& reader, const std::vector<Placed>& placed, std::uint64_t begin,
                          std::uint64_t bytes, Scratch& scratch) {
  const std::uint64_t end = begin + bytes;
  auto it = first_at(placed, begin);
  if (it != placed.end() && it->begin <= begin && it->end >= end) {
    const MutableBytes into{it->into + (begin - it->begin), bytes};
    UNBROKEN_DO(reader.read(begin, into));
    return xxh128(into);
  }
  const MutableBytes chunk = scratch.of(bytes);
  UNBROKEN_DO(reader.read(begin, chunk));
  for (; it != placed.end() && it->begin < end; ++it) {
    const std::uint64_t from = std::max(begin, it->begin);
    const std::uint64_t to = std::min(end, it->end);
    std::memcpy(it->into + (from - it->begin), chunk.data() + (from - begin), to - from);
  }
  return xxh128(chunk);
}

/// Reads all of an object in chunks, several blocks at once; each chunk is hashed where it lands.
Result<std::vector<Xxh128>> read_chunks(const Seams& seams, const ObjectReader& reader, std::string_view key,
                                        std::uint64_t chunk_bytes, const std::vector<Placed>& placed,
                                        const Deadline& by) {
  std::vector<Xxh128> chunks(chunk_count(reader.bytes(), chunk_bytes));
  const std::uint64_t chunks_per_block = std::max<std::uint64_t>(1, kBlockBytes / chunk_bytes);
  const std::uint64_t blocks = (chunks.size() + chunks_per_block - 1) / chunks_per_block;
  UNBROKEN_DO(parallel_for(seams.executor, Lane::io, blocks, [&](std::size_t block) -> Result<> {
    Scratch scratch;
    const std::uint64_t last = std::min<std::uint64_t>(chunks.size(), (block + 1) * chunks_per_block);
    for (std::uint64_t chunk = block * chunks_per_block; chunk < last; ++chunk) {
      UNBROKEN_DO(check_piece(seams, "read", key, by));
      const std::uint64_t begin = chunk * chunk_bytes;
      const std::uint64_t bytes = std::min(chunk_bytes, reader.bytes() - begin);
      UNBROKEN_TRY(chunks[chunk], read_chunk(reader, placed, begin, bytes, scratch));
    }
    return Done{};
  }));
  return chunks;
}

/// One look at the shard.
Result<> load_once(const Seams& seams, std::string_view key, const Index& index,
                   std::span<const Xxh128> chunks, const std::vector<Placed>& placed,
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
    auto read = read_chunks(seams, *reader, key, index.chunk_bytes, placed, by);
    if (!read.ok()) return damaged(read.error());
    evidence.chunks = std::move(read).value();
  }
  damage = verify_chunks(index, {chunks.begin(), chunks.end()}, evidence);
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
  UNBROKEN_TRY(out.chunks, read_chunks(seams, *reader, wanted.key, wanted.chunk_bytes,
                                       {{0, head.size(), head.data()}}, by));
  return out;
}

Result<> load_shard(const Seams& seams, std::string_view key, const Index& index,
                    std::span<const Xxh128> chunks, std::span<const TensorTarget> targets,
                    std::vector<Damage>& damage, const Deadline& by) {
  UNBROKEN_TRY(const std::vector<Placed> placed, place(index, targets));
  auto loaded = load_once(seams, key, index, chunks, placed, damage, by);
  if (!loaded.is(Code::corrupt)) return loaded;
  // What comes back the second time is what is there.
  return load_once(seams, key, index, chunks, placed, damage, by);
}

}  // namespace unbroken
