#include "sim/sim_executor.h"

#include <gtest/gtest.h>

#include <set>
#include <stop_token>

#include "sim/sim_world.h"

namespace unbroken {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Runs `body` alone in a world of this seed.
void run_alone(std::uint64_t seed, const SimWorld::Body& body) {
  SimWorld world({.seed = seed});
  world.spawn("p", body);
  const SimEnd end = world.run();
  EXPECT_EQ(end.why, SimEnd::Why::all_over) << end.failure;
}

Deadline within(SimProcess& me, Duration d) {
  return {me.clock().now() + d, {}};
}

TEST(Executor, StrandKeepsOrder) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    run_alone(seed, [](SimProcess& me) {
      std::string order;
      for (const char c : {'a', 'b', 'c', 'd'}) {
        ASSERT_TRUE(me.executor().post(Lane::strand, [&, c] {
          order += c;
          static_cast<void>(me.fs().info("x").ok());
          order += c;
          me.executor().notify();
        }));
      }
      EXPECT_TRUE(me.executor().wait([&] { return order.size() == 8; }, within(me, seconds(1))).ok());
      EXPECT_EQ(order, "aabbccdd");
    });
  }
}

TEST(Executor, OtherLanesTakeAnyOrder) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    run_alone(seed, [&](SimProcess& me) {
      std::string order;
      for (const char c : {'a', 'b', 'c'}) {
        ASSERT_TRUE(me.executor().post(Lane::io, [&, c] {
          order += c;
          me.executor().notify();
        }));
      }
      EXPECT_TRUE(me.executor().wait([&] { return order.size() == 3; }, within(me, seconds(1))).ok());
      orders.insert(order);
    });
  }
  EXPECT_EQ(orders.size(), 6u);
}

TEST(Executor, LanesAreAsWideAsTheySay) {
  run_alone(1, [](SimProcess& me) {
    unsigned running = 0, most = 0, done = 0;
    for (int i = 0; i < 12; ++i) {
      ASSERT_TRUE(me.executor().post(Lane::io, [&] {
        most = std::max(most, ++running);
        for (int k = 0; k < 5; ++k) static_cast<void>(me.fs().info("x").ok());
        --running;
        ++done;
        me.executor().notify();
      }));
    }
    EXPECT_TRUE(me.executor().wait([&] { return done == 12; }, within(me, seconds(10))).ok());
    EXPECT_EQ(most, me.executor().width(Lane::io));
  });
}

TEST(Executor, FullQueueTakesNothing) {
  run_alone(1, [](SimProcess& me) {
    std::size_t accepted = 0, done = 0;
    while (me.executor().post(Lane::strand, [&] {
      ++done;
      me.executor().notify();
    })) {
      ++accepted;
    }
    EXPECT_EQ(accepted, SimExecutor::kQueueMax);
    EXPECT_TRUE(me.executor().wait([&] { return done == accepted; }, within(me, seconds(10))).ok());
  });
}

TEST(Executor, PostAtWaitsForItsTimeOnTheStrand) {
  run_alone(3, [](SimProcess& me) {
    const Instant start = me.clock().now();
    std::vector<int> order;
    Instant first{};
    me.executor().post_at(start + seconds(20), [&] { order.push_back(20); });
    me.executor().post_at(start + seconds(10), [&] {
      first = me.clock().now();
      order.push_back(10);
    });
    me.executor().post_at(start + seconds(30), [&] {
      order.push_back(30);
      me.executor().notify();
    });
    EXPECT_TRUE(me.executor().wait([&] { return order.size() == 3; }, within(me, seconds(100))).ok());
    EXPECT_EQ(order, (std::vector{10, 20, 30}));
    EXPECT_GE(first, start + seconds(10));
    EXPECT_LT(first, start + seconds(11));
  });
}

TEST(Executor, WaitIsLateAtItsDeadlineAndNotBefore) {
  run_alone(1, [](SimProcess& me) {
    const Instant start = me.clock().now();
    EXPECT_TRUE(me.executor().wait([] { return false; }, within(me, seconds(7))).is(Code::late));
    EXPECT_GE(me.clock().now(), start + seconds(7));
    EXPECT_LT(me.clock().now(), start + seconds(8));
    EXPECT_TRUE(me.executor().wait([] { return true; }, within(me, seconds(0))).ok());
    EXPECT_TRUE(me.executor().wait([] { return false; }, within(me, seconds(0))).is(Code::late));
  });
}

TEST(Executor, StopTokenEndsAWait) {
  run_alone(1, [](SimProcess& me) {
    std::stop_source stop;
    me.executor().post_at(me.clock().now() + seconds(3), [&] { stop.request_stop(); });
    const Deadline by{me.clock().now() + seconds(1000), stop.get_token()};
    EXPECT_TRUE(me.executor().wait([] { return false; }, by).is(Code::stopped));
    EXPECT_LT(me.clock().now(), Instant{seconds(4)});
    EXPECT_TRUE(me.executor().wait([] { return false; }, by).is(Code::stopped));
  });
}

TEST(Executor, ForgottenNotifyShowsAsALateWait) {
  run_alone(1, [](SimProcess& me) {
    bool is_done = false;
    me.executor().post_at(me.clock().now() + seconds(1), [&] { is_done = true; });
    const Instant start = me.clock().now();
    EXPECT_TRUE(me.executor().wait([&] { return is_done; }, within(me, seconds(60))).ok());
    EXPECT_GE(me.clock().now(), start + seconds(60));
  });
}

TEST(Executor, PausedProcessIsLateWhenItWakes) {
  SimWorld world;
  bool is_late = false;
  SimProcess& p = world.spawn("p", [&](SimProcess& me) {
    is_late = me.executor().wait([] { return false; }, within(me, seconds(10))).is(Code::late);
  });
  world.call_at(Instant{seconds(5)}, [&] { p.pause(); });
  world.call_at(Instant{seconds(3600)}, [&] { p.resume(); });
  EXPECT_EQ(world.run().why, SimEnd::Why::all_over);
  EXPECT_TRUE(is_late);
  EXPECT_GE(world.now(), Instant{seconds(3600)});
}

TEST(Executor, WallTimeMayBeYearsOff) {
  SimWorld world;
  SimProcess& right = world.spawn("right", [](SimProcess&) {});
  SimProcess& wrong = world.spawn("wrong", [](SimProcess&) {}, {.wall_offset_ms = -31'536'000'000});
  EXPECT_EQ(right.clock().wall_unix_ms() - wrong.clock().wall_unix_ms(), 31'536'000'000);
  EXPECT_EQ(right.clock().now(), wrong.clock().now());
}

}  // namespace
}  // namespace unbroken
