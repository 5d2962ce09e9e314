#pragma once
// The image of a shard in memory, of one step boundary: header and tensors as they will stand in the file,
// the hash of every chunk and of every tensor.
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "format/index.h"
#include "unbroken/tensor.h"
#include "world/executor.h"

namespace unbroken {

/// Sealed: nothing in it changes any more.
struct Snapshot {
  Index index;                    ///< but for the save and the writer, which the commit fills in
  BufferRef image;                ///< the shard file
  std::vector<Xxh128> chunks;     ///< of `image`, kChunkBytes each
  std::uint64_t state_bytes = 0;  ///< of the tensors
  bool is_finite = true;          ///< so are all values of the parameters
};

/// Digests of the logical bytes, one per view. Errors: bad_argument.
Result<std::vector<Xxh128>> digest_views(std::span<const TensorView> views, Executor& executor);

}  // namespace unbroken
