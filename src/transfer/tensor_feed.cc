#include "transfer/tensor_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "engine/write/write_object.h"
#include "exchange/crc32.h"
#include "exchange/strided.h"
#include "snapshot/tensor_view.h"

namespace unbroken {

namespace {

Shape extent_of(const Box& box) {
  Shape extent(box.end);
  for (std::size_t axis = 0; axis < extent.size(); ++axis) extent[axis] -= box.begin[axis];
  return extent;
}

/// Copies a contiguous box to its place in the contiguous whole.
void place_box(const Box& box, const Shape& whole, std::uint64_t element_bytes, Bytes from,
               std::vector<std::byte>& into) {
  const Shape extent = extent_of(box);
  const std::size_t rank = extent.size();
  // Axes from `run` on are held whole, so they and the one before them are one run of bytes.
  std::size_t run = rank;
  std::uint64_t run_bytes = element_bytes;
  while (run > 0 && extent[run - 1] == whole[run - 1]) run_bytes *= whole[--run];
  if (run > 0) run_bytes *= extent[--run];
  Shape at = box.begin;
  for (std::uint64_t done = 0; done < from.size(); done += run_bytes) {
    std::uint64_t place = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) place = place * whole[axis] + at[axis];
    std::memcpy(into.data() + place * element_bytes, from.data() + done, run_bytes);
    for (std::size_t axis = run; axis-- > 0;) {
      if (++at[axis] < box.end[axis]) break;
      at[axis] = box.begin[axis];
    }
  }
}

class Feed {
 public:
  Feed(const ImportPlan& plan, const ImportedTensor& tensor, const ForeignFiles& files)
      : plan_(plan), tensor_(tensor), files_(files) {}

  Result<> read(const ImportedPiece& piece, std::uint64_t offset, MutableBytes into) const {
    if (piece.file != ImportedPiece::kInline) return files_[piece.file]->read(piece.offset + offset, into);
    return MemorySource(as_bytes(plan_.inline_bytes)).read(piece.offset + offset, into);
  }

  Result<> stream(const ImportedPiece& piece, std::uint64_t bytes,
                  const std::function<Result<>(Bytes)>& take) const {
    std::vector<std::byte> block(std::min(bytes, kBlockBytes));
    for (std::uint64_t at = 0; at < bytes; at += block.size()) {
      const MutableBytes part = MutableBytes(block).first(std::min<std::uint64_t>(block.size(), bytes - at));
      UNBROKEN_DO(read(piece, at, part));
      UNBROKEN_DO(take(part));
    }
    return Done{};
  }

  Result<> assemble(std::uint64_t bytes, const std::function<Result<>(Bytes)>& take) const {
    std::vector<std::byte> whole(bytes);
    const std::uint64_t element_bytes = bits_of(tensor_.dtype) / 8;
    for (const ImportedPiece& piece : tensor_.pieces) {
      const Shape extent = extent_of(piece.box);
      UNBROKEN_TRY(const std::uint64_t span, strided_span(extent, piece.strides));
      if (span == 0) continue;
      std::vector<std::byte> stored(span * element_bytes);
      UNBROKEN_DO(read(piece, 0, stored));
      UNBROKEN_TRY(const std::uint64_t held_bytes, byte_size(tensor_.dtype, extent));
      std::vector<std::byte> held(held_bytes);
      const TensorView view{.name = tensor_.name,
                            .dtype = tensor_.dtype,
                            .shape = extent,
                            .stride_elements = {piece.strides.begin(), piece.strides.end()},
                            .data = stored.data()};
      gather(view, held);
      place_box(piece.box, tensor_.shape, element_bytes, held, whole);
    }
    return take(whole);
  }

 private:
  const ImportPlan& plan_;
  const ImportedTensor& tensor_;
  const ForeignFiles& files_;
};

}  // namespace

Result<> feed_tensor(const ImportPlan& plan, const ImportedTensor& tensor, const ForeignFiles& files,
                     const std::function<Result<>(Bytes)>& take) {
  UNBROKEN_TRY(const std::uint64_t bytes, byte_size(tensor.dtype, tensor.shape));
  if (bytes == 0) return Done{};
  const Feed feed(plan, tensor, files);
  const bool is_one = tensor.pieces.size() == 1 && extent_of(tensor.pieces.front().box) == tensor.shape &&
                      are_contiguous(tensor.shape, tensor.pieces.front().strides);
  try {
    return is_one ? feed.stream(tensor.pieces.front(), bytes, take) : feed.assemble(bytes, take);
  } catch (const std::bad_alloc&) {
    return Error(Code::unavailable,
                 fmt::format("{}: no memory for a tensor of {} bytes", tensor.name, bytes));
  }
}

Result<> verify_checksums(const ImportPlan& plan, const ForeignFiles& files,
                          const std::function<void(std::uint64_t bytes)>& tell) {
  std::vector<std::byte> block(kBlockBytes);
  for (const ChecksummedRange& range : plan.checks) {
    Crc32 crc;
    for (std::uint64_t at = 0; at < range.bytes; at += block.size()) {
      const MutableBytes part =
          MutableBytes(block).first(std::min<std::uint64_t>(block.size(), range.bytes - at));
      UNBROKEN_DO(files[range.file]->read(range.offset + at, part));
      crc.update(part);
      tell(part.size());
    }
    if (crc.value() != range.crc32)
      return Error(Code::corrupt, fmt::format("{}: its checksum is {:08x}, the file says {:08x}", range.what,
                                              crc.value(), range.crc32));
  }
  return Done{};
}

}  // namespace unbroken
