#include "os/machine/cpu_meter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>

#include "os/os_executor.h"
#include "world/parallel.h"

namespace unbroken {
namespace {

constexpr double kWorkS = 0.02;

double cpu_s(clockid_t of) {
  timespec at{};
  EXPECT_EQ(::clock_gettime(of, &at), 0);
  return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}

/// By the clock of this very thread.
void work() {
  for (const double end = cpu_s(CLOCK_THREAD_CPUTIME_ID) + kWorkS; cpu_s(CLOCK_THREAD_CPUTIME_ID) < end;) {
  }
}

TEST(CpuMeter, CountsWhatItsThreadDoesBetweenEnterAndItsEnd) {
  const double before = cpu_s(CLOCK_PROCESS_CPUTIME_ID);
  const auto meter = make_cpu_meter(), other = make_cpu_meter();
  work();
  EXPECT_EQ(meter->seconds(), 0.0);
  {
    const auto scope = meter->enter();
    work();
    EXPECT_GE(meter->seconds(), kWorkS) << "before it ends, too";
    {
      const auto inner = other->enter();
      const auto again = other->enter();
      work();
    }
    {
      const auto left = meter->leave();
      work();
    }
    work();
  }
  work();
  EXPECT_GE(meter->seconds(), 2 * kWorkS);
  EXPECT_GE(other->seconds(), kWorkS);
  EXPECT_LE(meter->seconds() + other->seconds() + 3 * kWorkS, cpu_s(CLOCK_PROCESS_CPUTIME_ID) - before)
      << "nothing is counted twice, or of what was outside";
}

TEST(CpuMeter, CountsWhatIsPostedMeanwhileAndWhatThatPosts) {
  const auto executor = OsExecutor::start({.io_threads = 2, .compute_threads = 2}).value();
  const double before = cpu_s(CLOCK_PROCESS_CPUTIME_ID);
  const auto meter = make_cpu_meter();
  std::atomic<int> left = 3;
  const auto done = [&] {
    --left;
    executor->notify();
  };
  {
    const auto scope = meter->enter();
    ASSERT_TRUE(executor->post(Lane::strand, [&] {
      work();
      EXPECT_TRUE(parallel_for(*executor, Lane::io, 4, [](std::size_t) -> Result<> {
                    work();
                    return Done{};
                  }).ok());
      const auto nobodys = meter->leave();
      EXPECT_TRUE(executor->post(Lane::compute, [&] { work(), done(); }));
      done();
    }));
  }
  ASSERT_TRUE(executor->post(Lane::compute, [&] { work(), done(); }));
  executor->join([&] { return left.load() == 0; });
  executor->join([&] { return meter->seconds() >= 5 * kWorkS; });
  EXPECT_LE(meter->seconds() + 2 * kWorkS, cpu_s(CLOCK_PROCESS_CPUTIME_ID) - before);
}

}  // namespace
}  // namespace unbroken
