#pragma once
// The image of a shard in memory, taken at a step boundary: header and tensors as they will stand in the
// file, the hash of every chunk and of every tensor. Copying and hashing are one pass in cache-sized pieces.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "format/index.h"
#include "snapshot/arena.h"
#include "snapshot/tensor_view.h"
#include "world/executor.h"

namespace unbroken {

/// Sealed: nothing in it changes any more.
struct Snapshot {
  Index index;                    ///< but for the save and the writer, which the commit fills in
  BufferRef image;                ///< the shard file
  std::vector<Xxh128> chunks;     ///< of `image`, kChunkBytes each
  std::uint64_t state_bytes = 0;  ///< of the tensors
};

/// Copies everything before it returns.
/// Errors: bad_argument (a view that cannot be read, a name twice), unavailable (no memory, or every slot of
/// the arena in use).   Threads: the caller's and the compute lane.
Result<Snapshot> take_snapshot(const StateView& state, Arena& arena, Executor& executor);

/// Digests of the logical bytes, one per view. Errors: bad_argument.
Result<std::vector<Xxh128>> digest_views(std::span<const TensorView> views, Executor& executor);

}  // namespace unbroken
