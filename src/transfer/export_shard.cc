#include "transfer/export_shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/write/write_object.h"
#include "format/sums.h"
#include "world/check_time.h"

namespace unbroken {

namespace {

/// One tensor in the shard, and where its bytes go.
struct Move {
  std::uint64_t begin, end, to;
};

class Export {
 public:
  Export(const SavedState& saved, const std::vector<ExportedTensor>& tensors, const ShardPlan& plan)
      : saved_(saved) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const IndexedTensor& t = *tensors[i].tensor;
      if (t.bytes != 0) moves_.push_back({t.offset, t.offset + t.bytes, plan.offsets[i]});
    }
    std::sort(moves_.begin(), moves_.end(), [](const Move& a, const Move& b) { return a.begin < b.begin; });
  }

  Result<> run(const ObjectReader& reader, const Clock& clock, const ExportSink& sink, const Deadline& by) {
    const std::uint64_t chunk_bytes = saved_.index.chunk_bytes;
    const std::uint64_t block_bytes = std::max<std::uint64_t>(1, kBlockBytes / chunk_bytes) * chunk_bytes;
    std::vector<std::byte> room(std::min(block_bytes, reader.bytes()));
    std::size_t first = 0;  // the first move that is not over
    for (std::uint64_t at = 0; at < reader.bytes(); at += block_bytes) {
      if (auto in_time = check_time(clock.now(), by); !in_time.ok())
        return std::move(in_time).error().with(fmt::format("read {}", saved_.shard));
      const std::uint64_t end = std::min(at + block_bytes, reader.bytes());
      while (first < moves_.size() && moves_[first].end <= at) ++first;
      // Names of one tensor follow each other, and tensors do not overlap.
      if (first == moves_.size()) break;
      if (moves_[first].begin >= end) continue;
      const MutableBytes block = MutableBytes(room).first(end - at);
      UNBROKEN_DO(read_verified(reader, at, block));
      for (std::size_t i = first; i < moves_.size() && moves_[i].begin < end; ++i) {
        const std::uint64_t from = std::max(at, moves_[i].begin), to = std::min(end, moves_[i].end);
        if (from < to)
          UNBROKEN_DO(sink.write(moves_[i].to + (from - moves_[i].begin),
                                 Bytes(block).subspan(from - at, to - from)));
      }
      if (sink.tell) sink.tell(block.size());
    }
    return Done{};
  }

 private:
  Result<> read_verified(const ObjectReader& reader, std::uint64_t at, MutableBytes block) const {
    const std::uint64_t chunk_bytes = saved_.index.chunk_bytes;
    UNBROKEN_DO(reader.read(at, block));
    for (std::uint64_t begin = 0; begin < block.size(); begin += chunk_bytes) {
      const MutableBytes chunk = block.subspan(begin, std::min(chunk_bytes, block.size() - begin));
      const Xxh128& expected = saved_.chunks[(at + begin) / chunk_bytes];
      if (xxh128(chunk) == expected) continue;
      UNBROKEN_DO(reader.read(at + begin, chunk));  // what comes back the second time is what is there
      if (xxh128(chunk) != expected)
        return Error(Code::corrupt, fmt::format("{}: at byte {}: checksum is {}, expected {}", saved_.shard,
                                                at + begin, xxh128(chunk).hex(), expected.hex()));
    }
    return Done{};
  }

  const SavedState& saved_;
  std::vector<Move> moves_;  // by place in the shard
};

}  // namespace

Result<ShardPlan> plan_export(const std::vector<ExportedTensor>& tensors) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const ExportedTensor& t : tensors) specs.push_back({t.name, t.tensor->dtype, t.tensor->shape});
  return plan_shard(specs);
}

Result<> export_shard(const Seams& seams, const SavedState& saved, const std::vector<ExportedTensor>& tensors,
                      const ShardPlan& plan, const ExportSink& sink, const Deadline& by) {
  auto opened = seams.store.open_reader(saved.shard, by);
  if (opened.is(Code::not_found))
    return Error(Code::vanished, fmt::format("{}: it was removed, or lost, meanwhile", saved.shard));
  UNBROKEN_TRY(const std::unique_ptr<ObjectReader> reader, std::move(opened));
  if (reader->bytes() != saved.index.file_bytes ||
      saved.chunks.size() != chunk_count(reader->bytes(), saved.index.chunk_bytes))
    return Error(Code::corrupt, fmt::format("{}: it has {} bytes, expected {}", saved.shard, reader->bytes(),
                                            saved.index.file_bytes));
  UNBROKEN_DO(sink.write(0, as_bytes(plan.header)));
  return Export(saved, tensors, plan).run(*reader, seams.clock, sink, by);
}

}  // namespace unbroken
