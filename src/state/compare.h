#pragma once
// What a checkpoint holds against what is attached, before anything is written: every name, both sides.
#include <span>
#include <string>
#include <vector>

#include "state/dtype.h"

namespace unbroken {

struct Mismatch {
  struct Changed {
    std::string name, saved, live;  ///< both sides as "F32[3,4]"
    friend bool operator==(const Changed&, const Changed&) = default;
  };
  std::vector<std::string> missing;  ///< attached, but not in the checkpoint
  std::vector<std::string> unread;   ///< in the checkpoint, but nothing attached takes it
  std::vector<Changed> changed;      ///< other dtype or shape

  bool is_empty() const { return missing.empty() && unread.empty() && changed.empty(); }
  void add(Mismatch other);
  /// Every name and both sides, one a line.
  std::string text() const;
};

/// One side: tensors, and names of state that is not a tensor.
struct StateNames {
  std::span<const TensorSpec> tensors;
  std::span<const std::string> paths;
};
/// Names are sorted in the answer; a name twice on one side is a bug of the caller (CheckFailed).
Mismatch compare_states(const StateNames& saved, const StateNames& live);

}  // namespace unbroken
