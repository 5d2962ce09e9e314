#include "transfer/shard_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/write/write_object.h"
#include "format/index.h"

namespace unbroken {

static_assert(kBlockBytes % kChunkBytes == 0);

ShardStream::ShardStream(const Seams& seams, std::unique_ptr<ObjectWriter> writer, std::uint64_t bytes)
    : seams_(seams), writer_(std::move(writer)), bytes_(bytes) {}

Result<ShardStream> ShardStream::open(const Seams& seams, std::string_view key, std::uint64_t bytes,
                                      const Deadline& by) {
  UNBROKEN_TRY(std::unique_ptr<ObjectWriter> writer, seams.store.open_writer(key, bytes, by));
  return ShardStream(seams, std::move(writer), bytes);
}

Result<> ShardStream::add(Bytes bytes) {
  while (!bytes.empty()) {
    if (!block_) {
      block_ = std::make_shared<std::vector<std::byte>>();
      block_->reserve(std::min(kBlockBytes, bytes_ - std::min(bytes_, offset_)));
    }
    const std::size_t count = std::min<std::size_t>(bytes.size(), kBlockBytes - block_->size());
    block_->insert(block_->end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (block_->size() == kBlockBytes) UNBROKEN_DO(flush());
  }
  return Done{};
}

Result<> ShardStream::flush() {
  if (!block_) return Done{};
  const Bytes all(*block_);
  for (std::size_t at = 0; at < all.size(); at += kChunkBytes)
    chunks_.push_back(xxh128(all.subspan(at, std::min<std::size_t>(kChunkBytes, all.size() - at))));
  UNBROKEN_DO(settle());
  in_flight_->is_over.store(false);
  writer_->write(offset_, BufferRef(block_, all),
                 [flight = in_flight_, &executor = seams_.executor](Result<> result) {
                   flight->result = std::move(result);
                   flight->is_over.store(true);
                   executor.notify();
                 });
  offset_ += all.size();
  block_.reset();
  return Done{};
}

Result<> ShardStream::settle() {
  seams_.executor.join([this] { return in_flight_->is_over.load(); });
  return in_flight_->result ? *std::exchange(in_flight_->result, std::nullopt) : Result<>(Done{});
}

Result<std::vector<Xxh128>> ShardStream::finish(const Deadline& by) {
  UNBROKEN_DO(flush());
  UNBROKEN_DO(settle());
  UNBROKEN_CHECK(offset_ == bytes_);
  UNBROKEN_DO(writer_->finish(by));
  return std::move(chunks_);
}

}  // namespace unbroken
