#pragma once
// Tensors that an accelerator holds. Nobody here reads them: whoever knows the accelerator has them copied
// into the image of the shard, while the caller goes on.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace unbroken {

/// Threads: wait() any, several at once; the others the one that takes the snapshot.
class Arrivals {
 public:
  /// Where the logical bytes of a tensor of the state go.
  struct Place {
    std::uint32_t tensor;
    MutableBytes into;
    bool is_later;  ///< among StateView::later
  };
  virtual ~Arrivals() = default;
  /// All places will be in `memory`. Asked once for each memory: it stays where it is until what this returns
  /// is destroyed.
  virtual std::shared_ptr<void> prepare(MutableBytes memory) = 0;
  /// Begins to copy, in this order. What is written into a tensor afterwards, in the order of the work of its
  /// device, does not come into the copy, but for one that is later. Errors: unavailable.
  virtual Result<> begin(std::span<const Place> places) = 0;
  /// Returns when the first `count` places are filled; how many are. Errors: unavailable.
  virtual Result<std::size_t> wait(std::size_t count) = 0;
};

}  // namespace unbroken
