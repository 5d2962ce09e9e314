#include "sim/sim_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_world.h"

namespace unbroken {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

struct Bucket : testing::Test {
  SimWorld world;
  Deadline by{Instant{seconds(1000)}, {}};
  void run(const std::function<void(SimProcess&, SimStore&)>& body) {
    world.spawn("p", [&](SimProcess& me) {
      SimStore store(me);
      body(me, store);
    });
    const SimEnd end = world.run();
    EXPECT_EQ(end.why, SimEnd::Why::all_over) << end.failure;
  }
  std::set<bool> presence_after_power_loss(std::string_view key) {
    SimRandom random = world.stream("test");
    std::set<bool> seen;
    for (const DiskImage& image : world.disk().power_loss_states(1000, random).images) {
      const std::string* const bytes = image.file(key);
      seen.insert(bytes != nullptr);
      EXPECT_TRUE(!bytes || *bytes == "x");
    }
    return seen;
  }
};

TEST_F(Bucket, ObjectIsVisibleBeforeItIsDurable) {
  run([&](SimProcess&, SimStore& store) {
    EXPECT_EQ(store.create("journal/0", as_bytes("x"), by).value(), Created::created);
    EXPECT_EQ(store.get("journal/0", 10, by).value(), "x");
  });
  EXPECT_EQ(presence_after_power_loss("journal/0"), (std::set<bool>{false, true}));
  run([&](SimProcess&, SimStore& store) { EXPECT_TRUE(store.sync("journal/", by).ok()); });
  EXPECT_EQ(presence_after_power_loss("journal/0"), std::set<bool>{true});
}

TEST_F(Bucket, LostAnswersAreUnknownAndMayComeLate) {
  world.faults().plan({.kind = FaultKind::answer_lost_done, .op = SimOp::put, .path = "done"});
  world.faults().plan({.kind = FaultKind::answer_lost_undone, .op = SimOp::put, .path = "undone"});
  world.faults().plan({.kind = FaultKind::answer_lost_late, .op = SimOp::put, .path = "late"});
  run([&](SimProcess& me, SimStore& store) {
    EXPECT_EQ(store.create("done", as_bytes("x"), by).value(), Created::unknown);
    EXPECT_EQ(store.create("undone", as_bytes("x"), by).value(), Created::unknown);
    EXPECT_EQ(store.create("late", as_bytes("x"), by).value(), Created::unknown);
    EXPECT_EQ(store.get("done", 10, by).value(), "x");
    EXPECT_TRUE(store.get("undone", 10, by).is(Code::not_found));
    EXPECT_TRUE(store.get("late", 10, by).is(Code::not_found));
    EXPECT_TRUE(me.executor().wait([] { return false; }, {me.clock().now() + seconds(5), {}}).is(Code::late));
    EXPECT_TRUE(store.get("undone", 10, by).is(Code::not_found));
    EXPECT_EQ(store.get("late", 10, by).value(), "x");
  });
}

TEST_F(Bucket, RequestAppliedTwiceBringsBackWhatWasRemoved) {
  world.faults().plan({.kind = FaultKind::twice, .op = SimOp::put, .path = "a"});
  run([&](SimProcess& me, SimStore& store) {
    EXPECT_EQ(store.create("a", as_bytes("x"), by).value(), Created::created);
    EXPECT_TRUE(store.remove("a", by).ok());
    EXPECT_TRUE(store.get("a", 10, by).is(Code::not_found));
    static_cast<void>(me.executor().wait([] { return false; }, {me.clock().now() + seconds(5), {}}).ok());
    EXPECT_EQ(store.get("a", 10, by).value(), "x");
  });
}

TEST_F(Bucket, ListShowsPrefixesWithObjects) {
  run([&](SimProcess&, SimStore& store) {
    ASSERT_TRUE(store.create("data/b/1", as_bytes("x"), by).ok());
    ASSERT_TRUE(store.create("data/a", as_bytes("x"), by).ok());
    EXPECT_THAT(store.list("data/", by).value(), ElementsAre("a", "b"));
    ASSERT_TRUE(store.remove("data/b/1", by).ok());
    EXPECT_THAT(store.list("data/", by).value(), ElementsAre("a"));
  });
}

}  // namespace
}  // namespace unbroken
