#include "engine/write/write_object.h"

#include <algorithm>
#include <atomic>

#include "engine/test_run.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

TEST(WriteObject, WritesPartsInOrderWhateverTheirSize) {
  const std::string large = bytes_of(2 * kBlockBytes + 77), small = bytes_of(5);
  TestRun run;
  run.live([&](TestLife& me) {
    const std::vector<BufferRef> parts{BufferRef::of(small), BufferRef::of(large), BufferRef::of(""),
                                       BufferRef::of(small)};
    ASSERT_TRUE(write_object(me.seams, "data/x", parts, me.by()).ok());
    ASSERT_TRUE(write_object(me.seams, "data/empty", {}, me.by()).ok());
  });
  EXPECT_TRUE(run.world.disk().peek("data/x") == small + large + small);
  EXPECT_EQ(run.world.disk().peek("data/empty"), "");
}

TEST(WriteObject, LeavesNothingWhereAWriteFails) {
  TestRun run;
  run.live([&](TestLife& me) {
    run.world.faults().plan({.kind = FaultKind::no_space, .op = SimOp::write, .nth = 2});
    const std::vector<BufferRef> parts{BufferRef::of(bytes_of(3 * kBlockBytes))};
    const auto written = write_object(me.seams, "data/x", parts, me.by());
    ASSERT_TRUE(written.is(Code::no_space));
    EXPECT_THAT(written.error().what(), HasSubstr("data/x"));
    EXPECT_FALSE(run.world.disk().exists("data/x"));
  });
}

TEST(BeginWrite, WritesEachBlockOnceItIsFinal) {
  const std::string content = bytes_of(3 * kBlockBytes + 5);
  TestRun run;
  run.live([&](TestLife& me) {
    // The image is filled from its end, a block at a time, by another thread.
    auto image = std::make_shared<std::string>(content.size(), '\0');
    std::atomic<std::uint64_t> filled_from{content.size()};
    const auto begun = begin_write(
        me.seams, "data/x", {image, as_bytes(*image)},
        {[&](std::uint64_t begin, std::uint64_t) { return begin >= filled_from.load(); }}, me.by());
    ASSERT_TRUE(me.executor.post(Lane::compute, [&] {
      for (std::uint64_t left = content.size(); left > 0;) {
        const std::uint64_t begin = (left - 1) / kBlockBytes * kBlockBytes;
        std::copy(content.begin() + static_cast<std::ptrdiff_t>(begin),
                  content.begin() + static_cast<std::ptrdiff_t>(left),
                  image->begin() + static_cast<std::ptrdiff_t>(begin));
        filled_from = left = begin;
        me.executor.notify();
      }
    }));
    EXPECT_TRUE(begun->finish().ok());
    EXPECT_TRUE(begun->finish().ok()) << "again, it does nothing";
  });
  EXPECT_TRUE(run.world.disk().peek("data/x") == content);
}

TEST(BeginWrite, TakesTheTimeThatItsRateAsksFor) {
  const std::string content = bytes_of(10 << 20);
  for (const std::uint64_t rate : {std::uint64_t{1} << 20, std::uint64_t{100} << 20, std::uint64_t{0}}) {
    TestRun run;
    run.live([&](TestLife& me) {
      const Instant began = me.seams.clock.now();
      const auto begun =
          begin_write(me.seams, "data/x", BufferRef::of(content), {.bytes_per_s = rate}, me.by());
      EXPECT_TRUE(begun->finish().ok());
      const std::chrono::duration<double> took = me.seams.clock.now() - began;
      if (rate == 0) return;
      EXPECT_GE(took.count(), 9.0 * (1 << 20) / static_cast<double>(rate)) << "the first piece goes at once";
    });
    EXPECT_TRUE(run.world.disk().peek("data/x") == content);
  }
}

TEST(BeginWrite, GivesWayForAsLongAsItIsToForEachBlock) {
  const std::string content = bytes_of(4 * kBlockBytes);
  TestRun run;
  run.live([&](TestLife& me) {
    unsigned asked = 0, held = 0, held_max = 0;
    const auto gives_way = [&]() -> std::shared_ptr<void> {
      if (++asked > 3) return nullptr;  // somebody waits
      held_max = std::max(held_max, ++held);
      return {&held, [](unsigned* number) { --*number; }};
    };
    const auto begun =
        begin_write(me.seams, "data/x", BufferRef::of(content), {.gives_way = gives_way}, me.by());
    EXPECT_TRUE(begun->finish().ok());
    EXPECT_EQ(asked, 4u);
    EXPECT_GE(held_max, 1u);
    EXPECT_EQ(held, 0u);
  });
  EXPECT_TRUE(run.world.disk().peek("data/x") == content);
}

TEST(BeginWrite, AtARateEndsWhereItIsStopped) {
  TestRun run;
  run.live([&](TestLife& me) {
    std::stop_source stop;
    stop.request_stop();
    const Deadline by{me.by().at, stop.get_token()};
    const auto begun =
        begin_write(me.seams, "data/x", BufferRef::of(bytes_of(4 << 20)), {.bytes_per_s = 1}, by);
    EXPECT_TRUE(begun->finish().is(Code::stopped));
    EXPECT_FALSE(run.world.disk().exists("data/x"));
  });
}

TEST(BeginWrite, IsDoneInFinishWhereNobodyTookIt) {
  TestRun run;
  run.live([&](TestLife& me) {
    me.executor.is_refusing = true;
    const auto begun = begin_write(me.seams, "data/x", BufferRef::of("abc"), {}, me.by());
    EXPECT_TRUE(begun->finish().ok());
  });
  EXPECT_EQ(run.world.disk().peek("data/x"), "abc");
}

TEST(BeginWrite, LeavesNothingWhereAWriteFails) {
  TestRun run;
  run.live([&](TestLife& me) {
    run.world.faults().plan({.kind = FaultKind::no_space, .op = SimOp::write, .nth = 2});
    const auto begun = begin_write(me.seams, "data/x", BufferRef::of(bytes_of(3 * kBlockBytes)), {}, me.by());
    EXPECT_TRUE(begun->finish().is(Code::no_space));
    EXPECT_FALSE(run.world.disk().exists("data/x"));
  });
}

}  // namespace
}  // namespace unbroken
