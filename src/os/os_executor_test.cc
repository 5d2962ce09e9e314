#include "os/os_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

#include "os/os_clock.h"
#include "os/test_support.h"

namespace unbroken {
namespace {

using testing::ElementsAre;

constexpr Lane kLanes[] = {Lane::strand, Lane::io, Lane::compute};

std::unique_ptr<OsExecutor> start(OsExecutorOptions options = {}) {
  return OsExecutor::start(std::move(options)).value();
}

Deadline soon() {
  return {OsClock().now() + std::chrono::minutes(5), {}};
}

/// Holds up whoever passes, until it is opened.
class Gate {
 public:
  void pass() { is_open_.wait(false); }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }

 private:
  std::atomic<bool> is_open_ = false;
};

TEST(OsExecutor, StrandRunsOneTaskAtATimeInOrder) {
  const auto executor = start();
  std::vector<int> order;  // no lock: that is what the strand promises
  std::atomic<bool> is_over = false;
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(executor->post(Lane::strand, [&, i] { order.push_back(i); }));
  ASSERT_TRUE(executor->post(Lane::strand, [&] {
    is_over = true;
    executor->notify();
  }));
  ASSERT_TRUE(executor->wait([&] { return is_over.load(); }, soon()).ok());
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(OsExecutor, TheIoLaneKeepsToItsProcessors) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  unsigned last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &allowed)) --last;
  const auto executor = start({.io_threads = 2, .io_processors = {last}, .compute_threads = 1});
  for (const Lane lane : kLanes) {
    std::atomic<int> count = 0;
    ASSERT_TRUE(executor->post(lane, [&] {
      cpu_set_t mine;
      count = ::sched_getaffinity(0, sizeof(mine), &mine) == 0 ? CPU_COUNT(&mine) : -1;
      executor->notify();
    }));
    ASSERT_TRUE(executor->wait([&] { return count.load() != 0; }, soon()).ok());
    EXPECT_EQ(count.load(), lane == Lane::io ? 1 : CPU_COUNT(&allowed));
  }
  EXPECT_TRUE(start({.io_processors = {CPU_SETSIZE - 1}})->post(Lane::io, [] {})) << "one that is not there";
}

TEST(OsExecutor, LanesRunAsManyAtOnceAsTheirWidth) {
  const auto executor = start({.io_threads = 3, .compute_threads = 2});
  EXPECT_EQ(executor->width(Lane::strand), 1U);
  EXPECT_EQ(executor->width(Lane::io), 3U);
  EXPECT_EQ(executor->width(Lane::compute), 2U);
  EXPECT_GE(start()->width(Lane::compute), 1U);
  for (const Lane lane : kLanes) {
    Gate gate;
    std::atomic<unsigned> inside = 0, over = 0;
    const unsigned width = executor->width(lane);
    for (unsigned i = 0; i < width; ++i) {
      ASSERT_TRUE(executor->post(lane, [&] {
        ++inside;
        executor->notify();
        gate.pass();
        ++over;
        executor->notify();
      }));
    }
    EXPECT_TRUE(executor->wait([&] { return inside == width; }, soon()).ok());
    gate.open();
    EXPECT_TRUE(executor->wait([&] { return over == width; }, soon()).ok());
  }
}

TEST(OsExecutor, TimedTasksRunOnTheStrandInOrderOfTimeAndNotBefore) {
  const auto executor = start();
  const OsClock clock;
  const Instant now = clock.now();
  std::vector<int> order;
  std::atomic<int> early = 0, count = 0;
  for (const int ms : {30, 10, 20, 0, -5}) {
    const Instant when = now + std::chrono::milliseconds(ms);
    executor->post_at(when, [&, ms, when] {
      if (clock.now() < when) ++early;
      order.push_back(ms);
      ++count;
      executor->notify();
    });
  }
  bool is_dropped = true;
  executor->post_at(now + std::chrono::hours(1000), [&] { is_dropped = false; });
  ASSERT_TRUE(executor->wait([&] { return count == 5; }, soon()).ok());
  EXPECT_EQ(early, 0);
  EXPECT_THAT(std::vector(order.end() - 3, order.end()), ElementsAre(10, 20, 30));
  EXPECT_TRUE(is_dropped);
}

TEST(OsExecutor, FullQueueRefusesAndTakesNothing) {
  const auto executor = start({.io_threads = 1, .compute_threads = 1, .tasks_max = 8});
  for (const Lane lane : kLanes) {
    Gate gate;
    std::atomic<bool> is_inside = false;
    std::atomic<int> ran = 0;
    ASSERT_TRUE(executor->post(lane, [&] {
      is_inside = true;
      executor->notify();
      gate.pass();
    }));
    ASSERT_TRUE(executor->wait([&] { return is_inside.load(); }, soon()).ok());
    const Task count = [&] {
      ++ran;
      executor->notify();
    };
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(executor->post(lane, count));
    EXPECT_FALSE(executor->post(lane, count));
    gate.open();
    EXPECT_TRUE(executor->wait([&] { return ran == 8; }, soon()).ok());
    EXPECT_TRUE(executor->post(lane, count));
    EXPECT_TRUE(executor->wait([&] { return ran == 9; }, soon()).ok());
  }
}

TEST(OsExecutor, WaitEndsByTimeAndByStop) {
  const auto executor = start();
  const auto never = [] { return false; };
  const Instant now = OsClock().now();
  EXPECT_TRUE(executor->wait(never, {now, {}}).is(Code::late));
  EXPECT_TRUE(executor->wait(never, {now + std::chrono::milliseconds(20), {}}).is(Code::late));
  EXPECT_TRUE(executor->wait([] { return true; }, {now, {}}).ok()) << "what is done is never late";
  std::stop_source stop;
  std::atomic<int> asked = 0;
  std::jthread stopper([&] {
    asked.wait(0);
    stop.request_stop();
  });
  const auto ask = [&] {
    ++asked;
    asked.notify_all();
    return false;
  };
  EXPECT_TRUE(executor->wait(ask, {soon().at, stop.get_token()}).is(Code::stopped));
  EXPECT_TRUE(executor->wait(never, {Instant{Duration::max()}, stop.get_token()}).is(Code::stopped));
}

TEST(OsExecutor, SeveralMayWaitAtOnce) {
  const auto executor = start();
  std::atomic<int> value = 0, woken = 0;
  {
    std::vector<std::jthread> waiters;
    for (int i = 1; i <= 4; ++i) {
      waiters.emplace_back([&, i] {
        if (executor->wait([&] { return value >= i; }, soon()).ok()) ++woken;
      });
    }
    for (int i = 1; i <= 4; ++i) {
      ASSERT_TRUE(executor->post(Lane::io, [&] {
        ++value;
        executor->notify();
      }));
    }
  }
  EXPECT_EQ(woken, 4);
}

TEST(OsExecutor, EndWaitsForWhatRunsAndDropsWhatWaits) {
  std::atomic<int> ran = 0;
  const auto token = std::make_shared<int>(0);
  {
    const auto executor = start({.io_threads = 1, .compute_threads = 1});
    auto gate = std::make_shared<Gate>();
    std::atomic<bool> is_inside = false;
    ASSERT_TRUE(executor->post(Lane::io, [&, gate] {
      is_inside = true;
      executor->notify();
      gate->pass();
      ++ran;
    }));
    ASSERT_TRUE(executor->wait([&] { return is_inside.load(); }, soon()).ok());
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(executor->post(Lane::io, [&ran, token] { ran += 100; }));
    executor->post_at(soon().at, [&ran, token] { ran += 100; });
    gate->open();
  }
  EXPECT_GE(ran, 1);
  EXPECT_EQ(token.use_count(), 1) << "dropped tasks are destroyed";
}

TEST(OsExecutor, WorkersLeaveSignalsToOthersAndHaveNames) {
  const auto executor = start();
  for (const Lane lane : kLanes) {
    std::atomic<int> open_signals = -1;
    std::string name;
    ASSERT_TRUE(executor->post(lane, [&] {
      sigset_t blocked;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      int count = 0;
      for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGALRM, SIGCHLD, SIGXFSZ, SIGPIPE, SIGHUP})
        count += ::sigismember(&blocked, signal) == 1 ? 0 : 1;
      // A fault of the thread itself must still be heard of.
      count += ::sigismember(&blocked, SIGSEGV) == 1 ? 1 : 0;
      std::array<char, 16> room{};
      ::pthread_getname_np(::pthread_self(), room.data(), room.size());
      name = room.data();
      open_signals = count;
      executor->notify();
    }));
    ASSERT_TRUE(executor->wait([&] { return open_signals >= 0; }, soon()).ok());
    EXPECT_EQ(open_signals, 0);
    EXPECT_TRUE(name.starts_with("unbroken-")) << name;
  }
  sigset_t mine;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  EXPECT_EQ(::sigismember(&mine, SIGTERM), 0) << "the caller keeps its own";
}

TEST(OsExecutor, ReportsWhatATaskThrowsAndGoesOn) {
  std::atomic<int> reports = 0, ran = 0;
  std::string what;
  const auto executor = start({.on_throw = [&](std::string_view text) {
    what = text;
    ++reports;
  }});
  ASSERT_TRUE(executor->post(Lane::strand, [] { throw std::runtime_error("invariant"); }));
  ASSERT_TRUE(executor->post(Lane::strand, [] { throw 7; }));
  ASSERT_TRUE(executor->post(Lane::strand, [&] {
    ++ran;
    executor->notify();
  }));
  ASSERT_TRUE(executor->wait([&] { return ran == 1; }, soon()).ok());
  EXPECT_EQ(reports, 2);
  EXPECT_THAT(what, testing::HasSubstr("no exception"));
}

TEST(OsExecutor, IsInertInAForkedChild) {
  auto executor = start();
  std::atomic<bool> has_run = false;
  EXPECT_EQ(run_in_child([&] {
              if (executor->post(Lane::io, [&] { has_run = true; })) return 1;
              executor->post_at({}, [&] { has_run = true; });
              executor->notify();
              if (!executor->wait([] { return true; }, soon()).is(Code::stopped)) return 2;
              executor.reset();
              return has_run ? 3 : 0;
            }),
            0);
  ASSERT_TRUE(executor->post(Lane::io, [&] {
    has_run = true;
    executor->notify();
  }));
  EXPECT_TRUE(executor->wait([&] { return has_run.load(); }, soon()).ok());
}

TEST(OsExecutor, StandsManyPostersAndWaiters) {
  constexpr int kPosters = 4, kTasks = 5000;
  const auto executor = start({.io_threads = 3, .compute_threads = 2, .tasks_max = 64});
  std::atomic<int> done = 0;
  int on_strand = 0;
  {
    std::vector<std::jthread> posters;
    for (int poster = 0; poster < kPosters; ++poster) {
      posters.emplace_back([&] {
        for (int i = 0; i < kTasks; ++i) {
          // A byte's way: computed, written, told to the strand, which has room for all that is under way.
          const Task tell = [&] {
            ++on_strand;
            ++done;
            executor->notify();
          };
          const Task write = [&, tell] {
            while (!executor->post(Lane::strand, tell)) std::this_thread::yield();
          };
          const Lane lane = i % 2 == 0 ? Lane::io : Lane::compute;
          while (!executor->post(lane, write)) std::this_thread::yield();
        }
      });
    }
    for (int i = 0; i < 100; ++i) executor->post_at(OsClock().now(), [] {});
    EXPECT_TRUE(executor->wait([&] { return done == kPosters * kTasks; }, soon()).ok());
  }
  EXPECT_EQ(on_strand, kPosters * kTasks);
}

}  // namespace
}  // namespace unbroken
