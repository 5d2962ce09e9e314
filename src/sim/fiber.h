#pragma once
// A second stack in the same OS thread. Switching costs a _setjmp and a _longjmp; the address and thread
// sanitizers are told of every switch, and exceptions in flight stay with the fiber that threw them.
#include <csetjmp>
#include <cstddef>
#include <functional>
#include <memory>

namespace unbroken {

class Fiber {
 public:
  /// The calling thread's own stack. There may be several (worlds that follow each other).
  Fiber();
  /// A new stack on which `body` runs once switched to. `body` must end by switching away for ever.
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Leaves `from`, which is running, and continues `to`. Returns when somebody switches back to `from`.
  static void switch_to(Fiber& from, Fiber& to) { leave(from, to, false); }
  /// The same for the last time: `from` never runs again and may be destroyed from `to`.
  [[noreturn]] static void end(Fiber& from, Fiber& to);

 private:
  struct Context;
  struct Exceptions {
    void* caught = nullptr;
    unsigned uncaught_count = 0;
  };
  static void leave(Fiber& from, Fiber& to, bool is_ending);
  static void entry();
  void arrived(bool is_first);

  std::function<void()> body_;
  std::unique_ptr<Context> context_;
  std::jmp_buf jump_{};
  Exceptions exceptions_;
  bool is_started_ = false;
  const void* stack_ = nullptr;  ///< lowest address
  std::size_t stack_bytes_ = 0;
};

}  // namespace unbroken
