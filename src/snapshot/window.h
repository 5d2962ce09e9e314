#pragma once
// The part of an image that is in memory at a time, where there is no room for all of it. Bytes are filled in
// order; what is written goes back to the system, at once and for good. Whoever fills waits for that.
#include <atomic>
#include <cstdint>

#include "base/bytes.h"
#include "world/executor.h"

namespace unbroken {

/// Threads: one fills, any others.
class Window {
 public:
  /// `image`: whole pages that nobody has touched. `bytes`: of it in memory at a time, at least two of the
  /// blocks that are written.
  Window(MutableBytes image, std::uint64_t bytes, Executor& executor)
      : image_(image), bytes_(bytes), executor_(executor) {}
  /// Returns when everything before `end` may be filled. False: it never may.
  bool await(std::uint64_t end);
  /// Bytes [begin, end) of the image, whole pages but for its end, are not read any more. False where the
  /// system does not take them.
  bool give_back(std::uint64_t begin, std::uint64_t end);
  /// Nothing more will be given back.
  void close();

 private:
  const MutableBytes image_;
  const std::uint64_t bytes_;
  Executor& executor_;
  std::atomic<std::uint64_t> given_back_{0};
  std::atomic<bool> is_closed_{false};
};

}  // namespace unbroken
