// The lines of metrics/, whose order and delay nobody but people depends on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/json.h"
#include "engine/test_run.h"

namespace unbroken {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MetricsFile, HasOneLinePerStepInOrder) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    for (std::uint64_t step = 1; step <= 30; ++step)
      ASSERT_TRUE(me.train(step, {{"loss", 0.5}, {"step", 99.0}, {"attempt", 98.0}}).ok());
    ASSERT_TRUE(me.train(31, {{"a", std::nan("")}, {"b", HUGE_VAL}, {"c", -HUGE_VAL}}).ok());
    ASSERT_TRUE(me.close().ok());
  });
  std::istringstream lines(*run.world.disk().peek("metrics/a0001.jsonl"));
  std::string line;
  for (std::uint64_t step = 1; std::getline(lines, line); ++step) {
    const auto parsed = parse_json(line);
    ASSERT_TRUE(parsed.ok()) << line;
    EXPECT_EQ(parsed.value()["step"], step) << line;
    EXPECT_EQ(parsed.value()["attempt"], 1) << line;
    if (step <= 30) {
      EXPECT_EQ(parsed.value()["loss"], 0.5);
    } else {
      EXPECT_EQ(line, R"({"a":"NaN","attempt":1,"b":"Infinity","c":"-Infinity","step":31})");
      EXPECT_EQ(step, 31u);
    }
  }
}

TEST(MetricsFile, IsWrittenOnceASecondHoweverFastTheSteps) {
  TestRun run;
  run.live([&](TestLife& me) {
    const auto lines = [&] {
      const auto text = run.world.disk().peek("metrics/a0001.jsonl");
      return text ? std::count(text->begin(), text->end(), '\n') : 0;
    };
    ASSERT_TRUE(me.restore().ok());
    ASSERT_TRUE(me.train(1).ok());
    pass(me.seams, std::chrono::milliseconds(100));
    EXPECT_EQ(lines(), 1) << "that of a slow loop waits for nothing";
    for (std::uint64_t step = 2; step <= 50; ++step) {
      ASSERT_TRUE(me.train(step).ok());
      pass(me.seams, std::chrono::milliseconds(10));
    }
    EXPECT_EQ(lines(), 1) << "the others wait for each other";
    pass(me.seams, std::chrono::seconds(1));
    EXPECT_EQ(lines(), 50) << "though no step came after them";
    ASSERT_TRUE(me.train(51).ok());
    ASSERT_TRUE(me.save_fully(51).ok());
    EXPECT_EQ(lines(), 51) << "a save takes them along";
    ASSERT_TRUE(me.train(52).ok());
    ASSERT_TRUE(me.engine->drain(me.by()).ok());
    EXPECT_EQ(lines(), 52);
  });
}

TEST(MetricsFile, DoesNotWaitWhereALotIsNoted) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    const Metrics many(1, {std::string(1000, 'm'), 0.5});
    for (std::uint64_t step = 1; step <= 150; ++step) ASSERT_TRUE(me.train(step, many).ok());
    pass(me.seams, std::chrono::milliseconds(100));
    EXPECT_GE(run.world.disk().peek("metrics/a0001.jsonl")->size(), 65536u);
  });
}

TEST(MetricsFile, ThatCannotBeWrittenIsSaidOnceAndStopsNothing) {
  TestRun run;
  run.live([&](TestLife& me) {
    ASSERT_TRUE(me.restore().ok());
    run.world.faults().plan({.kind = FaultKind::eio, .op = SimOp::append, .path = "*", .count = 5});
    for (std::uint64_t step = 1; step <= 5; ++step) {
      ASSERT_TRUE(me.train(step, {{"loss", 1.0}}).ok());
      ASSERT_TRUE(me.engine->drain(me.by()).ok());
    }
    EXPECT_THAT(me.engine->status().take_messages(true),
                ElementsAre(HasSubstr("metrics could not be written")));
    ASSERT_TRUE(me.train(6, {{"loss", 1.0}}).ok());
    ASSERT_TRUE(me.save_fully(6).ok());
    EXPECT_EQ(me.engine->status().health().state, Health::State::green);
  });
  EXPECT_THAT(*run.world.disk().peek("metrics/a0001.jsonl"), HasSubstr("\"step\":6"));
}

}  // namespace

}  // namespace unbroken
