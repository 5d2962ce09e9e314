#include <gtest/gtest.h>

#include <cmath>

#include "base/ids.h"
#include "base/json.h"
#include "base/text.h"

namespace unbroken {
namespace {

TEST(SaveId, RoundTripsThroughItsNames) {
  for (const SaveId id :
       {SaveId{0, 1, 0}, SaveId{1200, 3, 0}, SaveId{1200, 3, 1}, SaveId{UINT64_MAX, UINT32_MAX, 7}}) {
    EXPECT_EQ(SaveId::from_name(id.name()).value(), id);
    EXPECT_EQ(SaveId::from_folder(id.folder()).value(), id);
  }
  EXPECT_EQ((SaveId{1200, 3, 0}.folder()), "step-000000001200.a0003.t0");
}

TEST(SaveId, RefusesWhatItDoesNotPrint) {
  for (const char* text :
       {"", "1200", "1200.3", "01200.a3", "1200.a3.t1.x", "1200.a3.x1", "-1.a1", "1200.a99999999999"})
    EXPECT_TRUE(SaveId::from_name(text).is(Code::bad_argument)) << text;
  for (const char* text : {"step-1200.a0003.t0", "step-000000001200.a3.t0", "step-000000001200.a0003", "x"})
    EXPECT_TRUE(SaveId::from_folder(text).is(Code::bad_argument)) << text;
}

TEST(Json, WritesEveryDoubleAndReadsItBack) {
  for (const double value : {0.1, -0.0, 1e308, HUGE_VAL, -HUGE_VAL}) {
    const auto back = number_from_json(json_number(value));
    ASSERT_TRUE(back.ok()) << value;
    EXPECT_EQ(back.value(), value);
  }
  EXPECT_EQ(json_number(std::nan("")), "NaN");
  EXPECT_TRUE(std::isnan(number_from_json("NaN").value()));
  for (const Json& other : {Json("nan"), Json("1"), Json(), Json(true)})
    EXPECT_TRUE(number_from_json(other).is(Code::corrupt)) << other;
}

TEST(Json, RefusesRepeatedKeysDepthAndJunk) {
  EXPECT_TRUE(parse_json(R"({"a":1,"a":2})").is(Code::corrupt));
  EXPECT_TRUE(parse_json(std::string(200, '[') + std::string(200, ']')).is(Code::corrupt));
  EXPECT_TRUE(parse_json("{\"a\":\"\xff\"}").is(Code::corrupt));
  EXPECT_TRUE(parse_json("{} ").ok());
  EXPECT_TRUE(parse_json("[1,2", {}).is(Code::corrupt));
  EXPECT_TRUE(parse_json("[1,2,3]", {.nodes = 3}).is(Code::corrupt));
}

TEST(Json, BuildsNestedValues) {
  const std::string text = R"({"a":[1,[2.5,{"b":[]}],"x"],"c":{"d":null,"e":-3}})";
  EXPECT_EQ(canonical_json(parse_json(text).value()).value(), text);
}

TEST(Seal, FindsEveryFlippedBit) {
  const std::string sealed = seal(Json{{"step", 1200}, {"loss", 0.1}}).value();
  ASSERT_TRUE(open_sealed(sealed).ok());
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bent = sealed;
      bent[i] = static_cast<char>(bent[i] ^ (1 << bit));
      EXPECT_TRUE(open_sealed(bent).is(Code::corrupt)) << i << "." << bit;
    }
  }
}

TEST(Seal, RepairsOneOfTwoCopies) {
  const std::string sealed = seal_twice(Json{{"step", 1200}}).value();
  EXPECT_FALSE(open_sealed_twice(sealed).value().is_repaired);
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string bent = sealed;
    bent[i] = static_cast<char>(bent[i] ^ 4);
    const auto opened = open_sealed_twice(bent);
    ASSERT_TRUE(opened.ok()) << i << ": " << opened.error().what();
    EXPECT_TRUE(opened.value().is_repaired);
    EXPECT_EQ(opened.value().value["step"], 1200);
  }
  for (std::size_t cut = 0; cut < sealed.size(); ++cut)
    EXPECT_TRUE(open_sealed_twice(sealed.substr(0, cut)).is(Code::corrupt)) << cut;
}

TEST(Text, ReadsUnits) {
  EXPECT_EQ(parse_duration_s("90s", "--stall").value(), 90);
  EXPECT_EQ(parse_duration_s("10y", "--node-mtbf").value(), 315360000);
  EXPECT_EQ(parse_duration_s("250ms", "x").value(), 0.25);
  EXPECT_EQ(parse_bytes("500GB", "x").value(), 5e11);
  EXPECT_EQ(parse_rate("64MiB/s", "x").value(), 67108864);
  for (const char* text : {"90", "", "s", "90 s", "1e400s", "5fortnights"})
    EXPECT_TRUE(parse_duration_s(text, "--stall").is(Code::bad_argument)) << text;
}

TEST(Text, ShowsTimes) {
  EXPECT_EQ(format_time(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(format_duration(0.25), "250ms");
  EXPECT_EQ(format_duration(0), "0ms");
  EXPECT_EQ(format_duration(0.00042), "0.42ms");
  EXPECT_EQ(format_duration(0.0042), "4.2ms");
  EXPECT_EQ(format_duration(0.00996), "10ms");
  EXPECT_EQ(format_duration(7800), "2h 10m");
  EXPECT_EQ(format_duration(86400e6), "1000000d 0h");
  EXPECT_EQ(format_duration(1e30), "1.16e+25d");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
}

TEST(Text, MatchesGlobs) {
  EXPECT_TRUE(glob_matches("model.*", "model.a.b"));
  EXPECT_TRUE(glob_matches("*.weight", "a.weight"));
  EXPECT_FALSE(glob_matches("model.?", "model.ab"));
  EXPECT_TRUE(glob_matches("*a*b*", "xxaxxbxx"));
}

}  // namespace
}  // namespace unbroken
