#pragma once
// What is to be saved, as it stands in the caller's memory.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "format/index.h"
#include "snapshot/arrivals.h"
#include "state/tree.h"
#include "unbroken/tensor.h"

namespace unbroken {

/// All that is saved: tensors once each, other names of the same bytes, and the tree that refers to them.
struct StateView {
  std::vector<TensorView> tensors;
  std::vector<Alias> aliases;
  Node tree;
  std::vector<std::uint32_t> parameters = {};  ///< of `tensors`: a value that is not finite is to be noted
  /// Of `tensors`: those that nobody writes before all is copied, and whose memory stays until then. Those
  /// that are not contiguous are copied at once all the same.
  std::vector<std::uint32_t> later = {};
  /// Asked once, from any thread, when all is copied: which of `later` were written since, as far as the
  /// caller can tell. Empty: it cannot.
  std::function<std::vector<std::uint32_t>()> written = {};
  /// Of `tensors`: those that `arrivals` brings; their `data` and strides mean nothing.
  std::vector<std::uint32_t> arriving = {};
  std::shared_ptr<Arrivals> arrivals = {};
};

}  // namespace unbroken
