#include "state/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"

namespace unbroken {
namespace {

using Changed = Mismatch::Changed;

TEST(Compare, NamesEveryDifferenceAndBothSides) {
  const std::vector<TensorSpec> saved{{"a", DType::f32, {3, 4}},
                                      {"b", DType::f32, {2}},
                                      {"gone", DType::i64, {}},
                                      {"same", DType::bf16, {1}}};
  const std::vector<TensorSpec> live{
      {"same", DType::bf16, {1}}, {"b", DType::f16, {2}}, {"a", DType::f32, {3, 5}}, {"new", DType::u8, {0}}};
  const std::vector<std::string> saved_paths{"step", "old", "turned"};
  const std::vector<std::string> live_paths{"step", "fresh"};
  const Mismatch found = compare_states({saved, saved_paths}, {live, live_paths});
  EXPECT_THAT(found.missing, testing::ElementsAre("fresh", "new"));
  EXPECT_THAT(found.unread, testing::ElementsAre("gone", "old", "turned"));
  EXPECT_THAT(found.changed,
              testing::ElementsAre(Changed{"a", "F32[3,4]", "F32[3,5]"}, Changed{"b", "F32[2]", "F16[2]"}));
  EXPECT_FALSE(found.is_empty());
  for (const char* text : {"fresh", "new", "gone", "old", "F32[3,4]", "F32[3,5]", "F16[2]"})
    EXPECT_THAT(found.text(), testing::HasSubstr(text));
}

TEST(Compare, SeesATensorThatBecameAPlainValue) {
  const std::vector<TensorSpec> tensor{{"x", DType::u8, {1}}};
  const std::vector<std::string> path{"x"};
  EXPECT_THAT(compare_states({tensor, {}}, {{}, path}).changed,
              testing::ElementsAre(Changed{"x", "U8[1]", "not a tensor"}));
  EXPECT_TRUE(compare_states({{}, path}, {{}, path}).is_empty());
  EXPECT_THROW(compare_states({tensor, path}, {}), CheckFailed);
}

TEST(Compare, AddsUp) {
  Mismatch all;
  all.add({{"a"}, {"b"}, {}});
  all.add({{"c"}, {}, {{"d", "F32[]", "F64[]"}}});
  EXPECT_THAT(all.missing, testing::ElementsAre("a", "c"));
  EXPECT_EQ(all.unread.size() + all.changed.size(), 2U);
}

}  // namespace
}  // namespace unbroken
