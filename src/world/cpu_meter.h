#pragma once
// What one piece of work costs the processors, on whatever threads it runs.
#include <memory>

namespace unbroken {

/// Threads: any.
class CpuMeter {
 public:
  virtual ~CpuMeter() = default;
  /// Until the last owner drops what comes back, which this thread does, all that it does is counted here,
  /// and so is, on whatever thread, what it posts to an executor meanwhile.
  virtual std::shared_ptr<void> enter() = 0;
  /// The same, but it is counted nowhere.
  virtual std::shared_ptr<void> leave() = 0;
  /// So far: of other threads, what was over.
  virtual double seconds() = 0;
};

}  // namespace unbroken
