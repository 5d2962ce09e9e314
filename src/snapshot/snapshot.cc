#include "snapshot/snapshot.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "format/shard.h"
#include "format/sums.h"
#include "world/parallel.h"

namespace unbroken {

namespace {

constexpr std::uint64_t kUnitBytes = std::uint64_t{4} << 20;

/// Neighbours in the file that one worker copies: up to kUnitBytes, or one tensor that is larger.
struct Unit {
  std::size_t begin, end;  // positions in file order
};

std::vector<Unit> units_of(const ShardPlan& plan) {
  std::vector<Unit> units;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    const std::uint64_t next = plan.bytes[plan.order[i]];
    if (units.empty() || bytes + next > kUnitBytes) {
      units.push_back({i, i});
      bytes = 0;
    }
    units.back().end = i + 1;
    bytes += next;
  }
  return units;
}

/// One shard image being filled.
class Filling {
 public:
  Filling(const StateView& state, const ShardPlan& plan, MutableBytes image)
      : state_(state),
        plan_(plan),
        image_(image),
        digests_(state.tensors.size()),
        chunks_(chunk_count(image.size(), kChunkBytes)),
        is_hashed_(chunks_.size(), 0) {
    std::memcpy(image_.data(), plan.header.data(), plan.header.size());
  }

  Result<> copy(const Unit& unit) {
    XxhStream stream;
    for (std::size_t i = unit.begin; i < unit.end; ++i) copy_tensor(plan_.order[i], stream);
    return Done{};
  }

  /// Chunks that no single tensor fills.
  Result<> hash_rest(Executor& executor) {
    std::vector<std::size_t> rest;
    for (std::size_t c = 0; c < chunks_.size(); ++c)
      if (!is_hashed_[c]) rest.push_back(c);
    return parallel_for(executor, Lane::compute, rest.size(), [&](std::size_t i) -> Result<> {
      const std::uint64_t begin = rest[i] * kChunkBytes;
      chunks_[rest[i]] =
          xxh128(image_.subspan(begin, std::min<std::uint64_t>(kChunkBytes, image_.size() - begin)));
      return Done{};
    });
  }

  std::vector<Xxh128>& digests() { return digests_; }
  std::vector<Xxh128>& chunks() { return chunks_; }

 private:
  void copy_tensor(std::size_t tensor, XxhStream& stream) {
    const TensorView& view = state_.tensors[tensor];
    const std::uint64_t begin = plan_.offsets[tensor];
    const std::uint64_t end = begin + plan_.bytes[tensor];
    const bool is_plain = is_contiguous(view);
    if (!is_plain) gather(view, image_.subspan(begin, end - begin));
    stream.reset();
    // Pieces end where chunks of the file end, so that a whole chunk is hashed while it is in cache.
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t next = std::min(end, (at / kChunkBytes + 1) * kChunkBytes);
      const MutableBytes piece = image_.subspan(at, next - at);
      if (is_plain)
        std::memcpy(piece.data(), static_cast<const std::byte*>(view.data) + (at - begin), piece.size());
      const bool is_whole_chunk =
          at % kChunkBytes == 0 && (piece.size() == kChunkBytes || next == image_.size());
      if (is_whole_chunk) {
        chunks_[at / kChunkBytes] = xxh128(piece);
        is_hashed_[at / kChunkBytes] = 1;
      }
      stream.update(piece);
      at = next;
    }
    digests_[tensor] = stream.digest();
  }

  const StateView& state_;
  const ShardPlan& plan_;
  MutableBytes image_;
  std::vector<Xxh128> digests_;
  std::vector<Xxh128> chunks_;
  std::vector<char> is_hashed_;  // by chunk; each is set by the one worker that fills that chunk alone
};

Index index_of(const StateView& state, const ShardPlan& plan, const std::vector<Xxh128>& digests) {
  Index index;
  index.data_offset = plan.data_offset;
  index.file_bytes = plan.file_bytes;
  index.tensors.reserve(state.tensors.size());
  for (const std::uint32_t t : plan.order) {
    const TensorView& view = state.tensors[t];
    index.tensors.push_back(
        {view.name, view.dtype, view.shape, plan.offsets[t], plan.bytes[t], digests[t], std::nullopt});
  }
  index.aliases = state.aliases;
  std::sort(index.aliases.begin(), index.aliases.end(),
            [](const Alias& a, const Alias& b) { return a.name < b.name; });
  index.tree = state.tree;
  return index;
}

}  // namespace

Result<Snapshot> take_snapshot(const StateView& state, Arena& arena, Executor& executor) {
  std::vector<TensorSpec> specs;
  specs.reserve(state.tensors.size());
  for (const TensorView& view : state.tensors) {
    UNBROKEN_DO(check_view(view));
    specs.push_back({view.name, view.dtype, view.shape});
  }
  UNBROKEN_TRY(const ShardPlan plan, plan_shard(specs));
  UNBROKEN_TRY(std::shared_ptr<MutableBytes> slot, arena.acquire(plan.file_bytes));
  if (!slot) return Error(Code::unavailable, "every snapshot slot is in use");

  Filling filling(state, plan, *slot);
  const std::vector<Unit> units = units_of(plan);
  UNBROKEN_DO(parallel_for(executor, Lane::compute, units.size(),
                           [&](std::size_t i) { return filling.copy(units[i]); }));
  UNBROKEN_DO(filling.hash_rest(executor));

  Snapshot snapshot;
  snapshot.index = index_of(state, plan, filling.digests());
  snapshot.chunks = std::move(filling.chunks());
  snapshot.state_bytes = std::accumulate(plan.bytes.begin(), plan.bytes.end(), std::uint64_t{0});
  const Bytes bytes = *slot;
  snapshot.image = BufferRef(std::move(slot), bytes);
  return snapshot;
}

Result<std::vector<Xxh128>> digest_views(std::span<const TensorView> views, Executor& executor) {
  for (const TensorView& view : views) UNBROKEN_DO(check_view(view));
  std::vector<Xxh128> digests(views.size());
  UNBROKEN_DO(parallel_for(executor, Lane::compute, views.size(), [&](std::size_t i) -> Result<> {
    UNBROKEN_TRY(const std::uint64_t bytes, byte_size(views[i].dtype, views[i].shape));
    if (is_contiguous(views[i])) {
      digests[i] = xxh128({static_cast<const std::byte*>(views[i].data), bytes});
      return Done{};
    }
    std::vector<std::byte> logical(bytes);
    gather(views[i], logical);
    digests[i] = xxh128(logical);
    return Done{};
  }));
  return digests;
}

}  // namespace unbroken
