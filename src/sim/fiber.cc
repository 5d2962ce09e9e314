// Fortified _longjmp refuses to jump to another stack.
#undef _FORTIFY_SOURCE
#include "sim/fiber.h"

#include <cxxabi.h>
#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNBROKEN_WITH_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define UNBROKEN_WITH_TSAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNBROKEN_WITH_ASAN
#endif
#if defined(__SANITIZE_THREAD__)
#define UNBROKEN_WITH_TSAN
#endif

#ifdef UNBROKEN_WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef UNBROKEN_WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace unbroken {
namespace {

#if defined(UNBROKEN_WITH_ASAN) || defined(UNBROKEN_WITH_TSAN)
constexpr std::size_t kStackBytes = std::size_t{1} << 20;
#else
constexpr std::size_t kStackBytes = std::size_t{256} << 10;
#endif
constexpr std::uint64_t kCanary = 0x57ac4c0ffee57ac4;

using Stack = std::unique_ptr<std::byte[]>;

/// Stacks are used again: a fresh one costs page faults.
std::vector<Stack>& spare_stacks() {
  static thread_local std::vector<Stack> spare;
  return spare;
}

Stack take_stack() {
  auto& spare = spare_stacks();
  Stack stack;
  if (spare.empty()) {
    stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  } else {
    stack = std::move(spare.back());
    spare.pop_back();
  }
#ifdef UNBROKEN_WITH_ASAN
  __asan_unpoison_memory_region(stack.get(), kStackBytes);
#endif
  std::memcpy(stack.get(), &kCanary, sizeof kCanary);
  return stack;
}

thread_local Fiber* arriving = nullptr;
thread_local Fiber* leaving = nullptr;

}  // namespace

struct Fiber::Context {
  ucontext_t system{};
  Stack stack;
  void* fake_stack = nullptr;  ///< of the address sanitizer
  void* tsan_fiber = nullptr;
};

Fiber::Fiber() : context_(std::make_unique<Context>()), is_started_(true) {
#ifdef UNBROKEN_WITH_TSAN
  context_->tsan_fiber = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), context_(std::make_unique<Context>()) {
  context_->stack = take_stack();
  stack_ = context_->stack.get();
  stack_bytes_ = kStackBytes;
  getcontext(&context_->system);
  context_->system.uc_stack.ss_sp = context_->stack.get();
  context_->system.uc_stack.ss_size = kStackBytes;
  context_->system.uc_link = nullptr;
  makecontext(&context_->system, &Fiber::entry, 0);
#ifdef UNBROKEN_WITH_TSAN
  context_->tsan_fiber = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  if (!context_->stack) return;
#ifdef UNBROKEN_WITH_TSAN
  __tsan_destroy_fiber(context_->tsan_fiber);
#endif
  spare_stacks().push_back(std::move(context_->stack));
}

void Fiber::arrived(bool is_first) {
#ifdef UNBROKEN_WITH_ASAN
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(is_first ? nullptr : context_->fake_stack, &bottom, &bytes);
  if (leaving->stack_ == nullptr) {  // the thread's own stack: its bounds are learned here
    leaving->stack_ = bottom;
    leaving->stack_bytes_ = bytes;
  }
#else
  static_cast<void>(is_first);
#endif
}

void Fiber::entry() {
  Fiber& self = *arriving;
  self.arrived(true);
  self.body_();
  std::abort();  // a body never returns
}

void Fiber::leave(Fiber& from, Fiber& to, bool is_ending) {
  if (from.context_->stack) {
    UNBROKEN_CHECK(std::memcmp(from.context_->stack.get(), &kCanary, sizeof kCanary) == 0);
  }
  arriving = &to;
  leaving = &from;
  void* const globals = abi::__cxa_get_globals();
  std::memcpy(&from.exceptions_, globals, sizeof from.exceptions_);
  std::memcpy(globals, &to.exceptions_, sizeof to.exceptions_);
#ifdef UNBROKEN_WITH_ASAN
  __sanitizer_start_switch_fiber(is_ending ? nullptr : &from.context_->fake_stack, to.stack_,
                                 to.stack_bytes_);
#else
  static_cast<void>(is_ending);
#endif
#ifdef UNBROKEN_WITH_TSAN
  to.is_started_ = true;
  __tsan_switch_to_fiber(to.context_->tsan_fiber, 0);
  swapcontext(&from.context_->system, &to.context_->system);
#else
  if (_setjmp(from.jump_) == 0) {
    if (to.is_started_) _longjmp(to.jump_, 1);
    to.is_started_ = true;
    setcontext(&to.context_->system);
  }
#endif
  arriving->arrived(false);
}

void Fiber::end(Fiber& from, Fiber& to) {
  leave(from, to, true);
  std::abort();
}

}  // namespace unbroken
