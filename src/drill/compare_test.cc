#include "drill/compare.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

TapStep step(std::uint64_t number, const std::string& weight, const std::string& loss = "l") {
  return {.step = number,
          .tensors = {{"w", weight}, {"x", "same"}},
          .values = {{"v", "1"}},
          .metrics = {{"loss", loss}},
          .not_attached = {}};
}

TEST(Comparison, LivesThatTogetherSayTheSameAreEqual) {
  Comparison c({step(1, "a"), step(2, "b"), step(3, "c")});
  c.add(1, {step(1, "a"), step(2, "b")});
  c.add(2, {step(2, "b"), step(3, "c")});
  EXPECT_FALSE(c.first_difference(true));
  EXPECT_EQ(c.last_step(), 3U);
}

TEST(Comparison, AStepThatIsRepeatedRightlyDoesNotExcuseTheOneBefore) {
  Comparison c({step(1, "a"), step(2, "b")});
  c.add(1, {step(1, "a"), step(2, "wrong")});
  c.add(2, {step(2, "b")});
  const auto found = c.first_difference(true);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 2U);
  EXPECT_EQ(found->life, 1U);
  EXPECT_EQ(found->straight, "b");
  EXPECT_EQ(found->other, "wrong");
}

TEST(Comparison, NamesTheEarliestStepAndTensorsFirst) {
  Comparison c({step(1, "a"), step(2, "b"), step(3, "c")});
  c.add(1, {step(1, "a"), step(2, "b"), step(3, "x", "y")});
  c.add(2, {step(2, "z", "y")});
  const auto found = c.first_difference(true);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 2U);
  EXPECT_EQ(found->name, "w");
  EXPECT_EQ(found->life, 2U);
}

TEST(Comparison, MetricsAloneAreADifference) {
  Comparison c({step(1, "a")});
  c.add(1, {step(1, "a", "other")});
  EXPECT_EQ(c.first_difference(true)->name, "loss");
}

TEST(Comparison, NamesThatOnlyOneSideHasAreDifferences) {
  TapStep less = step(1, "a"), more = step(1, "a");
  less.tensors.erase("x");
  more.values["z"] = "2";
  Comparison a({step(1, "a")}), b({step(1, "a")});
  a.add(1, {less});
  b.add(1, {more});
  EXPECT_EQ(a.first_difference(true)->name, "x");
  EXPECT_EQ(b.first_difference(true)->name, "z");
}

TEST(Comparison, AStepThatNoLifeCompletedIsADifferenceOnlyAtTheEnd) {
  Comparison c({step(1, "a"), step(2, "b"), step(3, "c")});
  c.add(1, {step(1, "a"), step(3, "c")});
  EXPECT_FALSE(c.first_difference(false));
  const auto found = c.first_difference(true);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 2U);
  EXPECT_EQ(found->name, "step");
  EXPECT_TRUE(found->other.empty());
}

TEST(Comparison, AStepBeyondTheLastIsADifference) {
  Comparison c({step(1, "a")});
  c.add(1, {step(1, "a"), step(2, "b")});
  const auto found = c.first_difference(false);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 2U);
  EXPECT_TRUE(found->straight.empty());
}

TEST(Comparison, SeveralRunsOfOneProcessSayTheirOwn) {
  Comparison c({step(1, "a"), step(1, "b")});
  c.add(1, {step(1, "b"), step(1, "a")});
  EXPECT_FALSE(c.first_difference(true));
  c.add(2, {step(1, "c")});
  EXPECT_TRUE(c.first_difference(true));
}

TEST(Comparison, AGeneratorThatNobodySeedsIsLeftOut) {
  const auto with = [](const std::string& weight, const std::string& python, const std::string& torch) {
    TapStep out = step(1, weight);
    out.values["rng.python.words"] = python;
    out.tensors["rng.torch.cpu"] = torch;
    return out;
  };
  const std::set<std::string> found = unseeded({with("a", "p", "t")}, {with("a", "q", "t")});
  EXPECT_EQ(found, std::set<std::string>{"rng.python.words"});
  Comparison c({with("a", "p", "t")}, found);
  c.add(1, {with("a", "other", "t")});
  EXPECT_FALSE(c.first_difference(true));
  c.add(2, {with("a", "other", "u")});
  EXPECT_EQ(c.first_difference(true)->name, "rng.torch.cpu");
  EXPECT_EQ(unseeded({with("a", "p", "t")}, {with("b", "p", "t")}), std::set<std::string>());
}

TEST(Comparison, WhatIsNotAttachedHasToComeBackToo) {
  const auto with = [](std::map<std::string, std::string> left) {
    TapStep out = step(1, "a");
    out.not_attached = std::move(left);
    return out;
  };
  Comparison c({with({{"clock", "1"}, {"ema", "1"}})},
               unseeded({with({{"clock", "1"}})}, {with({{"clock", "2"}})}));
  c.add(1, {with({{"clock", "3"}, {"ema", "1"}})});
  c.add(2, {with({{"ema", ""}})});
  c.add(3, {with({{"other", "2"}})});
  EXPECT_FALSE(c.first_difference(true)) << "otherwise in every run, not to be taken, and not there";
  c.add(4, {with({{"ema", "2"}})});
  ASSERT_TRUE(c.first_difference(true));
  EXPECT_EQ(c.first_difference(true)->name, "ema");
}

}  // namespace
}  // namespace unbroken
