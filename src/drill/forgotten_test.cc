#include "drill/forgotten.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace unbroken {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The start of step `number`; what is in `old` is as it was at the start of the run.
TapStep at(std::uint64_t number, const std::set<std::string>& old = {}) {
  TapStep out{.step = number, .tensors = {}, .values = {}, .metrics = {}, .not_attached = {}};
  for (const char* name : {"the model", "optimizer", "learning rate", "scheduler s", "scaler", "average ema",
                           "torch's generator", "generator order", "the position in the data", "tensor rows"})
    out.values[name] = fmt::format("{}", old.contains(name) ? 1 : number);
  out.values["tensor x"] = "never changes";
  return out;
}

std::vector<TapStep> run(std::uint64_t first, std::uint64_t last) {
  std::vector<TapStep> out;
  for (std::uint64_t step = first; step <= last; ++step) out.push_back(at(step));
  return out;
}

std::vector<std::string> found(const std::vector<TapStep>& straight, const std::vector<TapStep>& resumed) {
  return forgotten(straight, resumed, likeliest_begin(straight, resumed));
}

TEST(Forgotten, NothingWhereAllCameBack) {
  EXPECT_THAT(found(run(1, 9), run(5, 7)), IsEmpty());
  EXPECT_THAT(found({}, run(5, 7)), IsEmpty());
  EXPECT_THAT(found(run(1, 9), {}), IsEmpty());
}

TEST(Forgotten, EachThingIsNamedByItself) {
  for (const char* name : {"optimizer", "scheduler s", "scaler", "average ema", "torch's generator",
                           "generator order", "the position in the data", "tensor rows", "learning rate"})
    EXPECT_THAT(found(run(1, 9), {at(5, {name})}), ElementsAre(name));
}

TEST(Forgotten, WhatIsNoPartOfTheModelTellsTheStepWhereTheModelIsForgotten) {
  EXPECT_THAT(found(run(1, 9), {at(5, {"the model", "optimizer"})}), ElementsAre("the model", "optimizer"));
}

TEST(Forgotten, OfAModelThatAloneCameBackTheStepHasToBeKnown) {
  TapStep resumed = at(1);
  resumed.values["the model"] = "5";
  EXPECT_EQ(forgotten(run(1, 9), {resumed}, 4).size(), 7U);
  EXPECT_EQ(forgotten(run(1, 9), {resumed}, 4).front(), "optimizer");
}

TEST(Forgotten, WhatFollowsFromTheRestIsLeftOut) {
  EXPECT_THAT(found(run(1, 9), {at(5, {"the position in the data", "generator order", "tensor rows"})}),
              ElementsAre("generator order", "the position in the data"));
  EXPECT_THAT(found(run(1, 9), {at(5, {"learning rate", "scheduler s"})}), ElementsAre("scheduler s"));
}

TEST(Forgotten, WhatIsNewInEveryProcessAndNeverUsedIsNothingForgotten) {
  TapStep resumed = at(5);
  resumed.values["tensor x"] = "something else";
  resumed.values["tensor saved"] = "only here";
  EXPECT_THAT(found(run(1, 9), {resumed}), IsEmpty());
}

TEST(Forgotten, ALaterStepTellsWhereTheFirstIsRight) {
  EXPECT_THAT(found(run(1, 9), {at(5), at(6, {"the position in the data"}), at(7, {"the model"})}),
              ElementsAre("the position in the data"));
  // Beyond the end of what was watched nothing is said.
  EXPECT_THAT(found(run(1, 5), {at(5), at(6, {"scaler"})}), IsEmpty());
}

TEST(Forgotten, APlaceInTheDataThatIsRightOnceTheGeneratorsAreWasNotForgotten) {
  const std::vector<std::string> generator{"generator order"},
      both{"generator order", "the position in the data"};
  EXPECT_TRUE(may_follow_from_generators(both));
  EXPECT_TRUE(may_follow_from_generators({"optimizer", "numpy's generator", "the position in the data"}));
  EXPECT_FALSE(may_follow_from_generators(generator));
  EXPECT_FALSE(may_follow_from_generators({"optimizer", "the position in the data"}));
  EXPECT_EQ(without_what_followed(both, run(1, 9), {at(5, {"generator order"}), at(6)}, 4), generator);
  EXPECT_EQ(without_what_followed(both, run(1, 9), {at(5), at(6, {"the position in the data"})}, 4), both);
  EXPECT_EQ(without_what_followed(both, run(1, 9), {at(5)}, 4), both) << "it ended before";
  EXPECT_EQ(without_what_followed(both, run(1, 5), {at(5), at(6)}, 4), both);
}

}  // namespace
}  // namespace unbroken
