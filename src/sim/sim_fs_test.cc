#include "sim/sim_fs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/sim_world.h"

namespace unbroken {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

/// A file of its own with these bytes, written and closed.
Result<> write_file(Fs& fs, std::string_view path, std::string bytes, bool is_synced = true) {
  UNBROKEN_TRY(const FileId file, fs.create_excl(path));
  Result<> wrote = Done{};
  fs.write_at(file, 0, BufferRef::of(std::move(bytes)), [&](Result<> r) { wrote = std::move(r); });
  fs.settle(file);
  if (wrote.ok() && is_synced) wrote = fs.sync(file);
  auto closed = fs.close(file);
  UNBROKEN_DO(std::move(wrote));
  return closed;
}

struct ProcessFs : testing::Test {
  SimWorld world{{.is_traced = true}};
  void run(const SimWorld::Body& body) {
    world.spawn("p", body);
    const SimEnd end = world.run();
    EXPECT_EQ(end.why, SimEnd::Why::all_over) << end.failure << world.trace();
  }
};

TEST_F(ProcessFs, PlannedFaultHitsTheNthMatchingCall) {
  world.faults().plan({.kind = FaultKind::eio, .op = SimOp::write, .path = "b*", .nth = 2});
  world.faults().plan({.kind = FaultKind::no_space, .op = SimOp::create_excl, .path = "full"});
  run([](SimProcess& me) {
    EXPECT_TRUE(write_file(me.fs(), "a", "x").ok());
    EXPECT_TRUE(write_file(me.fs(), "b1", "x").ok());
    const auto second = write_file(me.fs(), "b2", "x");
    EXPECT_TRUE(second.is(Code::unavailable));
    EXPECT_THAT(second.error().what(), HasSubstr("b2: EIO"));
    EXPECT_TRUE(write_file(me.fs(), "b3", "x").ok());
    EXPECT_TRUE(write_file(me.fs(), "full", "x").is(Code::no_space));
  });
  EXPECT_EQ(world.faults().hit_count(), 2u);
  EXPECT_EQ(world.disk().peek("b2"), "");
}

TEST_F(ProcessFs, LostAnswerOfALinkIsUnknownEitherWay) {
  world.faults().plan({.kind = FaultKind::answer_lost_done, .op = SimOp::link, .path = "done"});
  world.faults().plan({.kind = FaultKind::answer_lost_undone, .op = SimOp::link, .path = "undone"});
  run([](SimProcess& me) {
    ASSERT_TRUE(write_file(me.fs(), "t", "x").ok());
    EXPECT_EQ(me.fs().link("t", "done").value(), Created::unknown);
    EXPECT_EQ(me.fs().link("t", "undone").value(), Created::unknown);
    EXPECT_EQ(me.fs().info("t").value().links, 2u);
  });
  EXPECT_TRUE(world.disk().exists("done"));
  EXPECT_FALSE(world.disk().exists("undone"));
}

TEST_F(ProcessFs, SyncThatLosesItsPagesSaysOkTheSecondTime) {
  world.faults().plan({.kind = FaultKind::sync_loses, .op = SimOp::sync});
  run([](SimProcess& me) {
    const FileId file = me.fs().create_excl("f").value();
    me.fs().write_at(file, 0, BufferRef::of("x"), [](Result<> r) { EXPECT_TRUE(r.ok()); });
    me.fs().settle(file);
    EXPECT_TRUE(me.fs().sync(file).is(Code::unavailable));
    EXPECT_TRUE(me.fs().sync(file).ok());
    EXPECT_TRUE(me.fs().close(file).ok());
    EXPECT_TRUE(me.fs().sync_dir("").ok());
  });
  EXPECT_EQ(*world.disk().durable_image().file("f"), "");
  EXPECT_EQ(*world.disk().image().file("f"), "");
  EXPECT_EQ(world.disk().peek("f"), "x");
}

TEST_F(ProcessFs, FlippedBitIsWrongOnce) {
  world.disk().plant("f", std::string(100, 'x'));
  world.faults().plan({.kind = FaultKind::flips_bit, .op = SimOp::read});
  run([](SimProcess& me) {
    const FileId file = me.fs().open_read("f").value();
    for (const std::ptrdiff_t wrong : {1, 0}) {
      std::string into(100, ' ');
      EXPECT_TRUE(me.fs().read_at(file, 0, std::as_writable_bytes(std::span(into))).ok());
      EXPECT_EQ(100 - std::ranges::count(into, 'x'), wrong);
    }
    EXPECT_TRUE(me.fs().close(file).ok());
  });
}

TEST_F(ProcessFs, DiskThatFillsAtAnyByteKeepsWholeFilesOrFails) {
  for (std::uint64_t room = 0; room < 12; ++room) {
    SimWorld many({.seed = room});
    many.disk().plant("before", "12345");
    many.disk().capacity_bytes = many.disk().used_bytes() + room;
    many.spawn("p", [&](SimProcess& me) {
      const auto wrote = write_file(me.fs(), "f", std::string(10, 'x'));
      EXPECT_EQ(wrote.ok(), room >= 10);
      EXPECT_TRUE(wrote.ok() || wrote.is(Code::no_space));
      EXPECT_TRUE(me.fs().unlink("f").ok());
      EXPECT_EQ(me.fs().free_bytes().value(), room);
    });
    EXPECT_EQ(many.run().failure, "");
  }
}

TEST_F(ProcessFs, SwarmTurnsOnDifferentFaults) {
  std::set<std::pair<bool, bool>> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SimRandom random(seed, "swarm");
    const FaultRates rates = swarm_rates(random);
    seen.insert({rates.eio_ppm > 0, rates.hang_ppm > 0});
    EXPECT_LT(rates.eio_ppm, 30'001u);
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST_F(ProcessFs, HangTakesItsTime) {
  world.faults().plan({.kind = FaultKind::hang, .op = SimOp::sync_dir, .hang = seconds(90)});
  run([](SimProcess& me) {
    const Instant start = me.clock().now();
    EXPECT_TRUE(me.fs().sync_dir("").ok());
    EXPECT_GE(me.clock().now(), start + seconds(90));
  });
}

TEST_F(ProcessFs, ReadOnlyDiskTakesNothing) {
  world.disk().plant("f", "x");
  world.disk().is_read_only = true;
  run([](SimProcess& me) {
    EXPECT_TRUE(me.fs().create_excl("g").is(Code::unavailable));
    EXPECT_TRUE(me.fs().unlink("f").is(Code::unavailable));
    EXPECT_TRUE(me.fs().link("f", "g").is(Code::unavailable));
    EXPECT_TRUE(me.fs().append("f", as_bytes("x")).is(Code::unavailable));
    EXPECT_TRUE(me.fs().info("f").ok());
  });
}

TEST_F(ProcessFs, FailedCloseHasClosed) {
  world.faults().plan({.kind = FaultKind::eio, .op = SimOp::close});
  run([](SimProcess& me) {
    EXPECT_TRUE(write_file(me.fs(), "f", "x").is(Code::unavailable));
    EXPECT_EQ(me.open_file_count(), 0u);
  });
}

TEST_F(ProcessFs, UseAfterCloseIsAFailure) {
  world.spawn("p", [](SimProcess& me) {
    const FileId file = me.fs().create_excl("f").value();
    EXPECT_TRUE(me.fs().close(file).ok());
    const FileId other = me.fs().create_excl("g").value();
    EXPECT_NE(file, other);
    EXPECT_FALSE(me.fs().sync(file).ok());
  });
  EXPECT_THAT(world.run().failure, HasSubstr("closed file"));
}

TEST_F(ProcessFs, WriteOfManyBlocksMayBeSeenInPart) {
  std::set<std::size_t> sizes;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SimWorld many({.seed = seed, .stay_ppm = 0});
    bool is_over = false;
    many.spawn("writer", [&](SimProcess& me) {
      EXPECT_TRUE(write_file(me.fs(), "f", std::string(16 * 4096, 'x')).ok());
      is_over = true;
    });
    many.spawn("reader", [&](SimProcess& me) {
      while (!is_over) {
        const auto info = me.fs().info("f");
        if (info.ok()) sizes.insert(info.value().bytes / 4096);
      }
    });
    EXPECT_EQ(many.run().failure, "");
  }
  EXPECT_EQ(sizes, (std::set<std::size_t>{0, 4, 8, 12, 16}));
}

TEST_F(ProcessFs, AsyncWritesCompleteInAnyOrderAndSettleWaits) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SimWorld many({.seed = seed, .is_write_async = true});
    many.spawn("p", [&](SimProcess& me) {
      std::string order;
      const FileId file = me.fs().create_excl("f").value();
      for (const char c : {'a', 'b', 'c'}) {
        me.fs().write_at(file, static_cast<std::uint64_t>(c - 'a'), BufferRef::of(std::string(1, c)),
                         [&order, c](Result<> r) { order += r.ok() ? c : '!'; });
      }
      me.fs().settle(file);
      EXPECT_EQ(order.size(), 3u);
      EXPECT_TRUE(me.fs().close(file).ok());
      orders.insert(order);
    });
    EXPECT_EQ(many.run().failure, "");
    EXPECT_EQ(many.disk().peek("f"), "abc");
  }
  EXPECT_EQ(orders.size(), 6u);
}

TEST_F(ProcessFs, EveryWriteInFlightIsAnsweredWhenTheProcessIsKilled) {
  for (std::uint64_t n = 1; n < 8; ++n) {
    for (const bool in_lane : {false, true}) {
      SimWorld many({.seed = n, .is_write_async = true});
      int answers = 0, writes = 0;
      SimProcess& p = many.spawn("p", [&](SimProcess& me) {
        bool is_done = false;
        const auto work = [&] {
          const auto file = me.fs().create_excl("f");
          if (!file.ok()) return;
          for (std::uint64_t i = 0; i < 4; ++i) {
            ++writes;
            me.fs().write_at(file.value(), i, BufferRef::of("x"), [&](Result<>) { ++answers; });
          }
          me.fs().settle(file.value());
          EXPECT_EQ(answers, writes);
          static_cast<void>(me.fs().close(file.value()).ok());
        };
        if (!in_lane) return work();
        ASSERT_TRUE(me.executor().post(Lane::io, [&] {
          work();
          is_done = true;
          me.executor().notify();
        }));
        static_cast<void>(me.executor().wait([&] { return is_done; }, {Instant{seconds(100)}, {}}).ok());
      });
      p.kill_at_op(n);
      EXPECT_EQ(many.run().failure, "");
      EXPECT_EQ(answers, writes);
    }
  }
}

TEST_F(ProcessFs, RatesHitAboutAsOftenAsTheySayAndStop) {
  world.faults().set_rates({.eio_ppm = 100'000});
  run([&](SimProcess& me) {
    int failed = 0;
    for (int i = 0; i < 1000; ++i) failed += !me.fs().info("").ok();
    EXPECT_GT(failed, 50);
    EXPECT_LT(failed, 200);
    world.faults().stop();
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(me.fs().info("").ok());
  });
}

TEST_F(ProcessFs, StaleListComesByPlan) {
  world.faults().plan({.kind = FaultKind::stale_list, .op = SimOp::list, .count = 50});
  run([](SimProcess& me) {
    std::set<std::size_t> counts;
    ASSERT_TRUE(me.fs().make_dir("new").ok());
    for (int i = 0; i < 50; ++i) counts.insert(me.fs().list("").value().size());
    EXPECT_EQ(counts, (std::set<std::size_t>{0, 1}));
    EXPECT_EQ(me.fs().list("").value().size(), 1u);
  });
}

}  // namespace
}  // namespace unbroken
