#include "snapshot/filling.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "format/sums.h"
#include "snapshot/tensor_view.h"
#include "state/finite.h"
#include "world/parallel.h"

namespace unbroken {

namespace {

constexpr std::uint64_t kUnitBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kToldBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kSliceBytesMin = 4096;  // a smaller one costs as much to read

std::uint64_t divided_up(std::uint64_t bytes, std::uint64_t by) {
  return (bytes + by - 1) / by;
}

/// Pieces end where chunks of the file end, so that a whole chunk is hashed while it is in cache.
std::uint64_t piece_end(std::uint64_t at, std::uint64_t end) {
  return std::min(end, (at / kChunkBytes + 1) * kChunkBytes);
}

std::vector<char> flags(std::size_t count, std::span<const std::uint32_t> set) {
  std::vector<char> out(count, 0);
  for (const std::uint32_t i : set) out[i] = 1;
  return out;
}

}  // namespace

Filling::Filling(const StateView& state, const ShardPlan& plan, MutableBytes image, Window* window,
                 CopyShared copy_shared, Executor& executor)
    : state_(state),
      plan_(plan),
      image_(image),
      window_(window),
      copy_shared_(std::move(copy_shared)),
      executor_(executor),
      filled_to_(state.tensors.size()),
      is_parameter_(flags(state.tensors.size(), state.parameters)),
      is_later_(flags(state.tensors.size(), state.later)),
      is_arriving_(flags(state.tensors.size(), state.arriving)),
      marks_(state.tensors.size()),
      is_changed_(state.tensors.size()),
      digests_(state.tensors.size()),
      chunks_(chunk_count(image.size(), kChunkBytes)),
      is_hashed_(chunks_.size(), 0) {
  std::memcpy(image_.data(), plan.header.data(), plan.header.size());
  // Of a window the header may go as soon as somebody asks for it.
  for (std::size_t c = 0; window_ != nullptr && chunk_end(c) <= plan.data_offset && c < chunks_.size(); ++c)
    hash_chunk(c);
}

std::vector<Unit> Filling::units() const {
  std::vector<Unit> units;
  std::uint64_t bytes = 0;
  std::size_t arrivals = 0;
  for (std::size_t i = 0; i < plan_.order.size(); ++i) {
    const std::uint32_t tensor = plan_.order[i];
    const std::uint64_t next = plan_.bytes[tensor];
    const bool is_arriving = is_arriving_[tensor] != 0, is_later = is_later_[tensor] != 0 || is_arriving;
    if (units.empty() || bytes + next > kUnitBytes || units.back().is_later != is_later ||
        (units.back().arrivals > 0) != is_arriving) {
      units.push_back({i, i, is_later, 0});
      bytes = 0;
    }
    units.back().end = i + 1;
    if (is_arriving) units.back().arrivals = ++arrivals;
    bytes += next;
  }
  return units;
}

std::vector<Arrivals::Place> Filling::places() const {
  std::vector<Arrivals::Place> places;
  for (const std::uint32_t tensor : plan_.order)
    if (is_arriving_[tensor] != 0)
      places.push_back(
          {tensor, image_.subspan(plan_.offsets[tensor], plan_.bytes[tensor]), is_later_[tensor] != 0});
  return places;
}

Result<> Filling::mark(const Proof& proof, Executor& executor) {
  for (const std::uint32_t tensor : state_.later) {
    if (is_arriving_[tensor] != 0) continue;  // proved by whoever brings it
    const std::uint64_t end = end_of(tensor);
    for (std::uint64_t at = plan_.offsets[tensor], next; at < end; at = next) {
      next = piece_end(at, end);
      const std::uint64_t slice = std::max(divided_up(next - at, proof.every), kSliceBytesMin);
      const std::uint64_t begin = at + proof.first % divided_up(next - at, slice) * slice;
      marks_[tensor].push_back({begin, std::min(begin + slice, next)});
    }
  }
  for (const std::uint32_t tensor : state_.later)
    for (Mark& mark : marks_[tensor]) marked_.emplace_back(tensor, &mark);
  return parallel_for(executor, Lane::compute, marked_.size(), [&](std::size_t i) -> Result<> {
    const auto [tensor, mark] = marked_[i];
    mark->digest = xxh128({live(tensor, mark->begin), mark->bytes()});
    return Done{};
  });
}

bool Filling::is_unwritten(std::size_t mark) const {
  const auto [tensor, slice] = marked_[mark];
  std::vector<std::byte> seen(slice->bytes());
  return copy_shared_(live(tensor, slice->begin), seen) && xxh128(seen) == slice->digest;
}

bool Filling::fill(const Unit& unit) {
  XxhStream stream;
  for (std::size_t i = unit.begin; i < unit.end; ++i)
    if (!fill_tensor(plan_.order[i], stream)) return false;
  return true;
}

bool Filling::copy_piece(std::size_t tensor, std::uint64_t at, MutableBytes piece) const {
  if (is_arriving_[tensor] != 0) return true;  // it stands there
  if (is_later_[tensor] != 0) return copy_shared_(live(tensor, at), piece);
  gather(state_.tensors[tensor], at - plan_.offsets[tensor], piece);
  return true;
}

bool Filling::fill_tensor(std::size_t tensor, XxhStream& stream) {
  const TensorView& view = state_.tensors[tensor];
  const std::uint64_t begin = plan_.offsets[tensor], end = end_of(tensor);
  const std::uint64_t element = std::max(1U, bits_of(view.dtype) / 8);
  std::uint64_t checked = begin;
  bool is_finite = true;
  auto mark = marks_[tensor].cbegin();
  stream.reset();
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t next = piece_end(at, end);
    if (window_ != nullptr && !window_->await(next)) return false;
    const MutableBytes piece = image_.subspan(at, next - at);
    if (!copy_piece(tensor, at, piece)) note_changed(tensor);
    const std::size_t chunk = at / kChunkBytes;
    const bool ends_chunk = next == chunk_end(chunk), is_whole_chunk = ends_chunk && at % kChunkBytes == 0;
    if (is_whole_chunk || (ends_chunk && window_ != nullptr)) hash_chunk(chunk);
    if (mark != marks_[tensor].cend()) {
      const bool is_hashed = is_whole_chunk && mark->bytes() == piece.size();
      const Xxh128 seen = is_hashed ? chunks_[chunk] : xxh128(image_.subspan(mark->begin, mark->bytes()));
      if (seen != mark->digest) note_changed(tensor);
      ++mark;  // there is one in each piece
    }
    if (is_parameter_[tensor] != 0) {
      const std::uint64_t whole = begin + (next - begin) / element * element;
      is_finite = all_finite(view.dtype, image_.subspan(checked, whole - checked)) && is_finite;
      checked = whole;
    }
    stream.update(piece);
    filled_to_[tensor].store(next, std::memory_order_release);
    if (next / kToldBytes != at / kToldBytes) executor_.notify();
    at = next;
  }
  filled_to_[tensor].store(end, std::memory_order_release);  // also of one without bytes
  if (!is_finite) is_finite_.store(false);
  digests_[tensor] = stream.digest();
  return true;
}

std::uint64_t Filling::chunk_end(std::size_t chunk) const {
  return std::min<std::uint64_t>((chunk + 1) * kChunkBytes, image_.size());
}

void Filling::hash_chunk(std::size_t chunk) {
  const std::uint64_t begin = chunk * kChunkBytes;
  chunks_[chunk] = xxh128(image_.subspan(begin, chunk_end(chunk) - begin));
  is_hashed_[chunk] = 1;
}

bool Filling::is_filled(std::uint64_t begin, std::uint64_t end) const {
  const auto first = std::partition_point(plan_.order.begin(), plan_.order.end(),
                                          [&](std::uint32_t t) { return end_of(t) <= begin; });
  for (auto it = first; it != plan_.order.end() && plan_.offsets[*it] < end; ++it)
    if (filled_to_[*it].load(std::memory_order_acquire) < std::min(end, end_of(*it))) return false;
  return true;
}

Result<> Filling::hash_rest(Executor& executor) {
  std::vector<std::size_t> rest;
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    if (is_hashed_[c] == 0) rest.push_back(c);
  return parallel_for(executor, Lane::compute, rest.size(), [&](std::size_t i) -> Result<> {
    hash_chunk(rest[i]);
    return Done{};
  });
}

std::vector<std::string> Filling::changed() const {
  std::vector<std::string> names;
  for (std::size_t t = 0; t < is_changed_.size(); ++t)
    if (is_changed_[t].load()) names.push_back(state_.tensors[t].name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace unbroken
