#include "snapshot/last_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace unbroken {
namespace {

std::vector<TensorView> two() {
  return {contiguous_view("a", DType::f32, {2, 3}, nullptr), contiguous_view("b", DType::i64, {4}, nullptr)};
}

TEST(LastPlan, IsThatOfTheSameTensorsWhereverTheyLie) {
  LastPlan last;
  const auto first = last.plan(two()).value();
  std::vector<TensorView> moved = two();
  int elsewhere = 0;
  moved[0].data = &elsewhere;
  moved[1].stride_elements = {-1};
  EXPECT_EQ(last.plan(moved).value(), first);
}

TEST(LastPlan, IsAnotherOneWhereAnythingInItDiffers) {
  LastPlan last;
  const auto check = [&](std::vector<TensorView> tensors) {
    std::vector<TensorSpec> specs;
    for (const TensorView& view : tensors) specs.push_back({view.name, view.dtype, view.shape});
    static_cast<void>(last.plan(two()).value());
    const auto seen = last.plan(tensors).value();
    const ShardPlan fresh = plan_shard(specs).value();
    EXPECT_EQ(seen->header, fresh.header);
    EXPECT_EQ(seen->offsets, fresh.offsets);
    EXPECT_EQ(seen->bytes, fresh.bytes);
    EXPECT_EQ(seen->order, fresh.order);
    EXPECT_EQ(seen->file_bytes, fresh.file_bytes);
  };
  const auto with = [](auto change) {
    std::vector<TensorView> tensors = two();
    change(tensors);
    return tensors;
  };
  check(with([](auto& t) { t[0].name = "c"; }));
  check(with([](auto& t) { t[0].dtype = DType::i32; }));
  check(with([](auto& t) { t[0].shape = {3, 2}; }));
  check(with([](auto& t) { t[0].shape = {6}; }));
  check(with([](auto& t) { std::swap(t[0], t[1]); }));
  check(with([](auto& t) { t.pop_back(); }));
  check(with([](auto& t) { t.push_back(contiguous_view("c", DType::u8, {1}, nullptr)); }));
  check({});
}

TEST(LastPlan, OutlivesAPlanThatFails) {
  LastPlan last;
  const auto first = last.plan(two()).value();
  std::vector<TensorView> twice = two();
  twice[1].name = "a";
  EXPECT_TRUE(last.plan(twice).is(Code::bad_argument));
  EXPECT_EQ(last.plan(two()).value(), first);
}

}  // namespace
}  // namespace unbroken
