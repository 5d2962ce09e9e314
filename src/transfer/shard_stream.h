#pragma once
// Writes a shard from front to end, hashing each chunk on the way, with two blocks of memory.
#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "engine/seams.h"

namespace unbroken {

class ShardStream {
 public:
  /// `bytes` is the final size. Errors: those of Store::open_writer.
  static Result<ShardStream> open(const Seams& seams, std::string_view key, std::uint64_t bytes,
                                  const Deadline& by);
  ShardStream(ShardStream&&) = default;
  Result<> add(Bytes bytes);
  /// After exactly `bytes` bytes. The hash of each chunk. Durability: the bytes are durable after ok.
  Result<std::vector<Xxh128>> finish(const Deadline& by);

 private:
  struct InFlight {
    std::atomic<bool> is_over{true};
    std::optional<Result<>> result;  // set before is_over
  };
  ShardStream(const Seams& seams, std::unique_ptr<ObjectWriter> writer, std::uint64_t bytes);
  Result<> flush();
  /// For the write in flight, if there is one.
  Result<> settle();

  Seams seams_;
  std::unique_ptr<ObjectWriter> writer_;
  std::uint64_t bytes_, offset_ = 0;
  std::shared_ptr<std::vector<std::byte>> block_;
  std::shared_ptr<InFlight> in_flight_ = std::make_shared<InFlight>();
  std::vector<Xxh128> chunks_;
};

}  // namespace unbroken
