// A shard of several blocks, each of which is written as soon as it is copied: whatever becomes of a block, a
// load notices.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/driver.h"
#include "engine/test_run.h"
#include "engine/write/write_object.h"
#include "restore/read_save.h"

namespace unbroken {
namespace {

constexpr std::uint64_t kShardBytes = 2 * kBlockBytes + (std::uint64_t{1} << 20);

/// A run with one checkpoint, 1.a1, of three blocks, written from memory, or through a window of two.
class Blocks : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    EngineOptions options = test_options();
    constexpr std::uint64_t kWindow = 2 * kBlockBytes;
    if (GetParam())
      options.arena = {.bytes_max = kWindow, .window_bytes_min = kWindow, .window_bytes_max = kWindow};
    run.live(
        [](TestLife& me) {
          me.model = TestModel(kShardBytes / sizeof(std::uint64_t));
          ASSERT_TRUE(me.restore().ok());
          ASSERT_TRUE(me.save_fully(1).ok());
          ASSERT_TRUE(me.close().ok());
        },
        options);
    shard = run.shard("1.a1");
    whole = run.world.disk().peek(shard).value();
    ASSERT_GT(whole.size(), kShardBytes);
  }
  /// Objects that a reader of everything finds damaged.
  std::set<std::string> damaged() {
    std::set<std::string> out;
    const Commit commit = run.journal().newest()->commit;
    run.live([&](TestLife& me) {
      const auto found = unbroken::run(me.seams, ReadSave(commit, ReadSave::Depth::everything), me.by());
      ASSERT_TRUE(found.ok()) << found.error().what();
      for (const Damage& damage : found.value().damage) out.insert(damage.object);
    });
    return out;
  }

  TestRun run;
  std::string shard, whole;
};

// Both ends of every block, and its middle.
std::vector<std::uint64_t> places(std::uint64_t bytes) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t begin = 0; begin < bytes; begin += kBlockBytes) {
    const std::uint64_t end = std::min(begin + kBlockBytes, bytes);
    out.insert(out.end(), {begin, (begin + end) / 2, end - 1});
  }
  return out;
}

TEST_P(Blocks, AFlippedBitIsSeen) {
  for (const std::uint64_t at : places(whole.size())) {
    ASSERT_TRUE(run.world.disk().flip_bit(shard, at));
    EXPECT_EQ(damaged(), std::set{shard}) << at;
    ASSERT_TRUE(run.world.disk().flip_bit(shard, at));
  }
  EXPECT_TRUE(damaged().empty());
}

/// Room that was taken ahead reads as zeros where nothing reached the device.
TEST_P(Blocks, ASectorAPageOrABlockThatNeverReachedTheDeviceIsSeen) {
  for (const std::uint64_t count : {std::uint64_t{512}, std::uint64_t{4096}, kBlockBytes})
    for (const std::uint64_t at : places(whole.size())) {
      const std::uint64_t begin = at / count * count;
      std::string torn = whole;
      torn.replace(begin, std::min(count, whole.size() - begin), std::min(count, whole.size() - begin), '\0');
      ASSERT_NE(torn, whole);
      run.world.disk().plant(shard, std::move(torn));
      EXPECT_EQ(damaged(), std::set{shard}) << count << " at " << begin;
    }
}

TEST_P(Blocks, TwoThatChangedPlacesAreSeen) {
  std::string swapped = whole;
  swapped.replace(0, kBlockBytes, whole, kBlockBytes, kBlockBytes);
  swapped.replace(kBlockBytes, kBlockBytes, whole, 0, kBlockBytes);
  run.world.disk().plant(shard, std::move(swapped));
  EXPECT_EQ(damaged(), std::set{shard});
}

INSTANTIATE_TEST_SUITE_P(Written, Blocks, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Streamed" : "FromMemory"; });

/// Blocks of a save that ended with the power, torn or not, are no checkpoint.
TEST(BlocksOnTheirWay, AreNoCheckpointWhereThePowerGoes) {
  for (std::uint64_t op = 50; op <= 150; op += 10) {  // from opening the run to reading the save back
    TestRun run(op);
    const auto life = [](std::uint64_t step) {
      return [step](TestLife& me) {
        me.model = TestModel(kShardBytes / sizeof(std::uint64_t));
        if (me.restore().ok()) (void)me.save_fully(step);
      };
    };
    run.live(life(1));
    run.begin(life(2)).kill_at_op(op);
    ASSERT_TRUE(run.world.run().ok());
    run.world.power_loss();
    run.live([](TestLife& me) {
      me.model = TestModel(kShardBytes / sizeof(std::uint64_t));
      ASSERT_TRUE(me.restore().ok());
      EXPECT_TRUE(me.model.is_of(me.start())) << me.start();
      EXPECT_GE(me.start(), 1U);
    });
  }
}

}  // namespace
}  // namespace unbroken
