#include "drill/tap.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

constexpr const char* kLine =
    R"({"attempt":2,"metrics":{"loss":"3ff0000000000000","step":"4000000000000000"},"step":17,"tensors":{"w":"aa"},"values":{"n":"1"}})";

TEST(Tap, ReadsALine) {
  const auto parsed = parse_tap_line(kLine);
  ASSERT_TRUE(parsed.ok()) << parsed.error().what();
  EXPECT_EQ(parsed.value().step, 17U);
  EXPECT_EQ(parsed.value().tensors.at("w"), "aa");
  EXPECT_EQ(parsed.value().metrics.at("loss"), "3ff0000000000000");
  EXPECT_EQ(parsed.value().values.at("n"), "1");
}

TEST(Tap, ReadsWhatWasNotAttached) {
  const auto parsed = parse_tap_line(
      R"({"attempt":1,"metrics":{},"not_attached":{"parts[0]":"","scheduler":"ab"},"step":1,"tensors":{},"values":{}})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().what();
  EXPECT_EQ(parsed.value().not_attached,
            (std::map<std::string, std::string>{{"parts[0]", ""}, {"scheduler", "ab"}}));
}

TEST(Tap, LeavesOutALineThatAKillCutShort) {
  const std::string text = std::string(kLine) + "\n" + kLine + "\n" + std::string(kLine).substr(0, 40);
  const auto parsed = parse_tap(text);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().size(), 2U);
  EXPECT_TRUE(parse_tap("").value().empty());
}

TEST(Tap, RefusesWhatIsNoLine) {
  EXPECT_TRUE(parse_tap("{}\n").is(Code::corrupt));
  EXPECT_TRUE(parse_tap("nonsense\n").is(Code::corrupt));
}

TEST(Tap, ComparesLongValuesByDigest) {
  const std::string a(1000, 'a'), b = a + "b";
  const auto line = [](const std::string& value) {
    return R"({"attempt":1,"metrics":{},"step":1,"tensors":{},"values":{"v":")" + value + R"("}})";
  };
  const auto one = parse_tap_line(line(a)), same = parse_tap_line(line(a)), other = parse_tap_line(line(b));
  EXPECT_LT(one.value().values.at("v").size(), 100U);
  EXPECT_EQ(one.value(), same.value());
  EXPECT_NE(one.value(), other.value());
}

TEST(Tap, FindsTheStepOfALine) {
  EXPECT_EQ(step_of_tap_line(kLine), 17U);
  EXPECT_EQ(step_of_tap_line(R"({"attempt":1,"metrics":{"a\",\"step\":5":"00"},"step":9,"tensors":{}})"), 9U);
  EXPECT_EQ(step_of_tap_line("{}"), 0U);
}

}  // namespace
}  // namespace unbroken
