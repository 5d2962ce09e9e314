#include "world/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "world/test_executor.h"

namespace unbroken {
namespace {

TEST(ParallelFor, CallsEveryIndexOnce) {
  for (const std::size_t count : {0U, 1U, 2U, 7U, 1000U}) {
    SteppedExecutor executor(4);
    std::vector<int> calls(count);
    const auto done = parallel_for(executor, Lane::compute, count, [&](std::size_t i) -> Result<> {
      ++calls[i];
      return Done{};
    });
    EXPECT_TRUE(done.ok());
    EXPECT_EQ(calls, std::vector<int>(count, 1));
    while (executor.run_one()) {
    }
    EXPECT_EQ(calls, std::vector<int>(count, 1)) << "a helper that came late worked again";
  }
}

TEST(ParallelFor, SharesTheWorkWithHelpersThatRunMeanwhile) {
  SteppedExecutor executor(3);
  std::vector<int> calls(50);
  std::size_t by_helpers = 0;
  bool is_helper = false;
  const auto done = parallel_for(executor, Lane::io, calls.size(), [&](std::size_t i) -> Result<> {
    ++calls[i];
    by_helpers += is_helper ? 1 : 0;
    if (!is_helper && i == 10) {
      is_helper = true;  // in the middle of the caller's own call, a worker takes over
      executor.run_one();
      is_helper = false;
    }
    return Done{};
  });
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(calls, std::vector<int>(50, 1));
  EXPECT_EQ(by_helpers, 39u);
  EXPECT_EQ(executor.posted, 3u);
  EXPECT_GE(executor.notified, 1u) << "the caller would wait for ever";
}

TEST(ParallelFor, AsksForNoMoreHelpersThanThereIsWork) {
  SteppedExecutor executor(8);
  EXPECT_TRUE(parallel_for(executor, Lane::io, 3, [](std::size_t) -> Result<> { return Done{}; }).ok());
  EXPECT_EQ(executor.posted, 2u);
  EXPECT_TRUE(parallel_for(executor, Lane::io, 0, [](std::size_t) -> Result<> { return Done{}; }).ok());
  EXPECT_EQ(executor.posted, 2u);
}

TEST(ParallelFor, ACallerThatStandsInStopsOnceAWorkerIsThere) {
  SteppedExecutor executor(2);
  std::vector<bool> is_by_caller;
  bool is_helper = false;
  const auto done = parallel_for(
      executor, Lane::io, 20,
      [&](std::size_t i) -> Result<> {
        is_by_caller.push_back(!is_helper);
        if (i != 3) return Done{};
        is_helper = true;  // from here on, what runs is run by the executor
        return executor.run_one() ? Result<>(Done{}) : Error(Code::bug, "nobody was asked to help");
      },
      Caller::stands_in);
  EXPECT_TRUE(done.ok());
  ASSERT_EQ(is_by_caller.size(), 20u);
  EXPECT_EQ(std::count(is_by_caller.begin(), is_by_caller.end(), true), 4);
}

TEST(ParallelFor, ACallerThatStandsInAsksForHelpWithOneIndexToo) {
  SteppedExecutor executor(2), refusing(2, 0);
  const auto nothing = [](std::size_t) -> Result<> { return Done{}; };
  EXPECT_TRUE(parallel_for(executor, Lane::io, 1, nothing, Caller::stands_in).ok());
  EXPECT_EQ(executor.posted, 1u);
  EXPECT_TRUE(parallel_for(refusing, Lane::io, 20, nothing, Caller::stands_in).ok());
}

TEST(ParallelFor, WorksAloneWherePostsAreRefused) {
  SteppedExecutor executor(4, 0);
  std::size_t calls = 0;
  EXPECT_TRUE(parallel_for(executor, Lane::io, 20, [&](std::size_t) -> Result<> {
                ++calls;
                return Done{};
              }).ok());
  EXPECT_EQ(calls, 20u);
  EXPECT_EQ(executor.posted, 0u);
}

TEST(ParallelFor, ReturnsTheFirstErrorAndSkipsTheRest) {
  SteppedExecutor executor(2);
  std::vector<std::size_t> called;
  const auto done = parallel_for(executor, Lane::io, 100, [&](std::size_t i) -> Result<> {
    called.push_back(i);
    if (i >= 5) return Error(Code::no_space, "index " + std::to_string(i));
    return Done{};
  });
  ASSERT_TRUE(done.is(Code::no_space));
  EXPECT_EQ(done.error().what(), "index 5");
  EXPECT_EQ(called.size(), 6u);
}

TEST(ParallelFor, TheErrorThatCameFirstWinsWhateverItsIndex) {
  SteppedExecutor executor(2);
  bool is_inside = false;
  const auto done = parallel_for(executor, Lane::io, 4, [&](std::size_t i) -> Result<> {
    if (!is_inside) {
      is_inside = true;
      executor.run_one();  // the helper fails at index 1 while the caller is still at index 0
    }
    return Error(Code::unavailable, "index " + std::to_string(i));
  });
  EXPECT_EQ(done.error().what(), "index 1");
}

TEST(ParallelFor, TurnsAnExceptionOfABodyIntoAnError) {
  for (const std::size_t tasks_max : {0U, 10U}) {
    SteppedExecutor executor(2, tasks_max);
    const auto done = parallel_for(executor, Lane::compute, 4, [&](std::size_t i) -> Result<> {
      if (i == 0) executor.run_one();
      throw std::logic_error("an invariant does not hold");
    });
    ASSERT_TRUE(done.is(Code::bug));
    EXPECT_EQ(done.error().what(), "an invariant does not hold");
  }
}

}  // namespace
}  // namespace unbroken
