#pragma once
// What a forked child inherits from its parent is inert: its objects do nothing there. No thread of ours
// exists in a child, and its copies of our descriptors belong to the parent's files.
#include <cstdint>

namespace unbroken {

/// Changes in the child of every fork. One load; safe from any thread.
std::uint64_t fork_generation() noexcept;

/// Kept by an object that must do nothing in a child of the process that made it.
class ForkGuard {
 public:
  ForkGuard() : born_(fork_generation()) {}
  bool is_child() const noexcept { return fork_generation() != born_; }

 private:
  std::uint64_t born_;
};

}  // namespace unbroken
