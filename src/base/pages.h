#pragma once
// Memory that is moved to and from a device: aligned for direct I/O, in large pages where the kernel gives
// them. A request of few large segments is up to twice as fast as one of many small ones.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace unbroken {

class Pages {
 public:
  static constexpr std::uint64_t kBytes = 4096;  ///< alignment and granularity
  static constexpr std::uint64_t kLargeBytes = std::uint64_t{2} << 20;

  Pages() = default;
  /// At least `bytes` of zeros, not touched yet, left out of core dumps; empty where there is no memory.
  static Pages make(std::uint64_t bytes);
  /// Takes memory for whole pages ahead of their first use, and changes nothing in them, whoever else writes
  /// there meanwhile. False where that cannot be: no memory, or Linux before 5.14.
  static bool touch(MutableBytes pages);
  /// Gives the memory of whole pages back to the system; they are zeros when they are touched again. False
  /// where it stays, as what is locked into memory does.
  static bool give_back(MutableBytes pages);
  explicit operator bool() const { return memory_ != nullptr; }
  std::byte* data() const { return memory_.get(); }
  std::uint64_t size() const { return memory_ ? memory_.get_deleter().bytes : 0; }

 private:
  struct Unmap {
    std::uint64_t bytes;
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace unbroken
