#include "os/memory/idle_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <latch>

namespace unbroken {
namespace {

TEST(IdleThread, CallsUntilNothingIsLeft) {
  std::atomic<int> calls{0};
  std::latch over{1};
  {
    const IdleThread thread([&] {
      if (++calls < 5) return true;
      over.count_down();
      return false;
    });
    over.wait();
  }
  EXPECT_EQ(calls.load(), 5);
}

TEST(IdleThread, IsOfTheLowestPriority) {
  std::atomic<int> priority{-1};
  std::latch over{1};
  const IdleThread thread([&] {
    priority = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
    over.count_down();
    return false;
  });
  over.wait();
  EXPECT_EQ(priority.load(), 19);
  EXPECT_LT(::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())), 19) << "nobody else's";
}

}  // namespace
}  // namespace unbroken
