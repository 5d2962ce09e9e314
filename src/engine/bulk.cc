#include "engine/bulk.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "base/pages.h"
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

namespace {

Result<> write_blocks(const Seams& seams, std::string_view key, std::span<const BufferRef> parts,
                      const IsFinal& is_final, const Deadline& by) {
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
    if (is_final) {
      const std::uint64_t begin = pieces[i].offset, end = begin + pieces[i].bytes.bytes().size();
      UNBROKEN_DO(seams.executor.wait([&] { return is_final(begin, end); }, by));
    }
    writer->write(pieces[i].offset, pieces[i].bytes, in_flight.track());
    return Done{};
  });
  const auto written = in_flight.wait();
  UNBROKEN_DO(issued);
  if (!written.ok()) return Error(written.error());
  return writer->finish(by);
}

/// Runs on the io lane, or in finish() where that took nothing.
class Begun final : public BegunWrite {
 public:
  Begun(const Seams& seams, std::string key, BufferRef image, IsFinal is_final, Deadline by)
      : seams_(seams),
        key_(std::move(key)),
        image_(std::move(image)),
        is_final_(std::move(is_final)),
        by_(std::move(by)) {}
  void run() {
    if (is_taken_.exchange(true)) return;
    try {
      result_ = write_blocks(seams_, key_, {&image_, 1}, is_final_, by_);
    } catch (const std::exception& e) {
      result_ = Error(Code::bug, e.what());
    }
    is_over_.store(true);
    seams_.executor.notify();
  }
  Result<> finish() override {
    run();
    seams_.executor.join([this] { return is_over_.load(); });
    return result_;
  }

 private:
  const Seams seams_;
  const std::string key_;
  const BufferRef image_;
  const IsFinal is_final_;
  const Deadline by_;
  Result<> result_ = Done{};
  std::atomic<bool> is_taken_{false}, is_over_{false};
};

}  // namespace

Result<> write_object(const Seams& seams, std::string_view key, std::span<const BufferRef> parts,
                      const Deadline& by) {
  return write_blocks(seams, key, parts, {}, by);
}

std::shared_ptr<BegunWrite> begin_write(const Seams& seams, std::string key, BufferRef image,
                                        IsFinal is_final, const Deadline& by) {
  auto begun = std::make_shared<Begun>(seams, std::move(key), std::move(image), std::move(is_final), by);
  static_cast<void>(seams.executor.post(Lane::io, [begun] { begun->run(); }));
  return begun;
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

/// Reads all of an object by as many workers as the lane has. A worker reads a block, then hashes and copies
/// it chunk by chunk, each while it is in the processor's cache.
Result<std::vector<Xxh128>> read_chunks(const Seams& seams, const ObjectReader& reader, std::string_view key,
                                        std::uint64_t chunk_bytes, const std::vector<Placed>& placed,
                                        const Deadline& by) {
  std::vector<Xxh128> chunks(chunk_count(reader.bytes(), chunk_bytes));
  const std::uint64_t block_bytes = std::max<std::uint64_t>(1, kReadBytes / chunk_bytes) * chunk_bytes;
  const std::uint64_t blocks = chunk_count(reader.bytes(), block_bytes);
  const auto read_block = [&](std::uint64_t block, const Pages& memory) -> Result<> {
    UNBROKEN_DO(check_piece(seams, "read", key, by));
    const std::uint64_t begin = block * block_bytes;
    const MutableBytes bytes{memory.data(), std::min(block_bytes, reader.bytes() - begin)};
    UNBROKEN_DO(reader.read(begin, bytes));
    for (std::uint64_t at = 0; at < bytes.size(); at += chunk_bytes) {
      const Bytes chunk = bytes.subspan(at, std::min<std::uint64_t>(chunk_bytes, bytes.size() - at));
      chunks[(begin + at) / chunk_bytes] = xxh128(chunk);
      scatter(placed, begin + at, chunk);
    }
    return Done{};
  };
  std::atomic<std::uint64_t> next = 0;
  const std::size_t workers = std::min<std::uint64_t>(seams.executor.width(Lane::io), blocks);
  UNBROKEN_DO(parallel_for(seams.executor, Lane::io, workers, [&](std::size_t) -> Result<> {
    const Pages memory = Pages::make(std::min(block_bytes, reader.bytes()));
    if (!memory) return Error(Code::unavailable, fmt::format("read {}: no memory for a block", key));
    for (std::uint64_t block; (block = next.fetch_add(1)) < blocks;) {
      auto read = read_block(block, memory);
      if (read.ok()) continue;
      next = blocks;  // the others end too
      return read;
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
