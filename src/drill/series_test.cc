#include "drill/series.h"

#include <gtest/gtest.h>

#include "drill/lines.h"
#include "drill/metrics_lines.h"

namespace unbroken {
namespace {

std::vector<std::string> lines_of(const std::vector<std::string>& pieces, std::size_t bytes_max = 100) {
  LineCutter cutter(bytes_max);
  std::vector<std::string> out;
  for (const std::string& piece : pieces)
    cutter.add(piece, [&](std::string_view line) { out.emplace_back(line); });
  return out;
}

TEST(LineCutter, PutsPiecesTogetherAndCutsAtBothEnds) {
  EXPECT_EQ(lines_of({"a", "b\nc\rd\r\n\ne"}), (std::vector<std::string>{"ab", "c", "d"}));
}

TEST(LineCutter, KeepsTheFrontOfALineThatIsTooLong) {
  EXPECT_EQ(lines_of({"1234", "5678", "9\nab\n"}, 6), (std::vector<std::string>{"123456", "ab"}));
}

TEST(Series, StepsAreWholeNumbers) {
  EXPECT_EQ(step_of_text("12"), 12U);
  EXPECT_EQ(step_of_text(" 0012 "), 12U);
  EXPECT_EQ(step_of_text("0"), 0U);
  EXPECT_EQ(step_of_text("12.00"), 12U);
  for (const char* wrong : {"", " ", "-1", "1.5", "1e3", "1/2", "0x1", "99999999999999999999"})
    EXPECT_EQ(step_of_text(wrong), std::nullopt) << wrong;
}

TEST(Series, ALaterValueReplacesAnEarlierOne) {
  Series series;
  ASSERT_TRUE(put(series, 1, "loss", "0.5").ok());
  ASSERT_TRUE(put(series, 1, "loss", " 0.25").ok());
  EXPECT_EQ(series.at(1).at("loss"), "0.25");
  ASSERT_TRUE(put(series, 2, "loss", std::string(100'000, 'x')).ok());
  EXPECT_EQ(series.at(2).at("loss").size(), 32U);
}

Series steps(std::uint64_t from, std::uint64_t to, const char* loss = "1") {
  Series out;
  for (std::uint64_t step = from; step <= to; ++step) out[step]["loss"] = loss;
  return out;
}

std::optional<Difference> difference(const PrintedRun& run, std::size_t lost, bool has_final = false) {
  Comparison comparison(as_steps(steps(1, 20)));
  EXPECT_EQ(run.compare(steps(1, 20), has_final, comparison).size(), lost);
  return comparison.first_difference(true);
}

TEST(PrintedRun, WhatIsSaidLastOfAStepCounts) {
  PrintedRun run;
  run.add(1, steps(1, 10, "2"), true);
  run.add(2, steps(1, 20), false);
  EXPECT_EQ(difference(run, 0), std::nullopt);
  run.add(3, steps(15, 16, "3"), true);
  const auto found = difference(run, 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 15U);
  EXPECT_EQ(found->life, 3U);
}

TEST(PrintedRun, WhatWasLostWithAKilledLifeIsNoDifference) {
  PrintedRun run;
  run.add(1, steps(1, 7), true);
  run.add(2, steps(11, 20), false);
  EXPECT_EQ(difference(run, 3), std::nullopt);  // 8, 9, 10
}

TEST(PrintedRun, AHoleElsewhereIsADifference) {
  PrintedRun run;
  Series holed = steps(1, 12);
  holed.erase(5);
  run.add(1, holed, true);
  run.add(2, steps(11, 20), false);
  const auto found = difference(run, 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 5U);
  EXPECT_EQ(found->name, "step");
}

TEST(PrintedRun, TheEndIsMissedUnlessTheFinalStateSpeaksForIt) {
  PrintedRun run;
  run.add(1, steps(1, 15), true);
  run.add(2, {}, false);
  EXPECT_TRUE(difference(run, 0));
  EXPECT_EQ(difference(run, 5, true), std::nullopt);
}

Series read(MetricsLines::Kind kind, const std::vector<std::string>& lines) {
  MetricsLines reader(kind);
  Series out;
  for (const std::string& line : lines) EXPECT_TRUE(reader.add(line, out).ok());
  return out;
}

TEST(MetricsLines, AreToldByTheNameOfTheirFile) {
  EXPECT_EQ(MetricsLines::kind_of("a/b.csv").value(), MetricsLines::Kind::csv);
  EXPECT_EQ(MetricsLines::kind_of("b.jsonl").value(), MetricsLines::Kind::jsonl);
  EXPECT_TRUE(MetricsLines::kind_of("b.json").is(Code::bad_argument));
}

TEST(MetricsLines, CsvHasAHeaderQuotesAndEmptyCells) {
  const Series out =
      read(MetricsLines::Kind::csv, {"\xef\xbb\xbf"
                                     "epoch,\"train_loss\",step,lr,val_Loss",
                                     "0,0.5,10,1e-3,", "0,,10.0,1e-3,\"0,75\"",
                                     "epoch,train_loss,step,lr,val_Loss", "0,7", "0,\"0.25,20"});
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out.at(10), (std::map<std::string, std::string>{{"train_loss", "0.5"}, {"val_Loss", "0,75"}}));
}

TEST(MetricsLines, JsonKeepsBitsAndTakesPythonsConstants) {
  const Series out = read(MetricsLines::Kind::jsonl,
                          {R"({"step": 1, "loss": 0.1, "text\\": "NaN"})", R"({"loss": NaN, "_step": 2})",
                           R"({"global_step": 3.0, "loss": -Infinity, "other": [NaN]})", "nonsense", "[1]",
                           R"({"step": "x"})", R"({"step": 4, "loss": "a text"})", R"({"loss": 5})"});
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out.at(1).at("loss"), "0.1");
  EXPECT_EQ(out.at(2).at("loss"), "NaN");
  EXPECT_EQ(out.at(3).at("loss"), "-Infinity");
}

}  // namespace
}  // namespace unbroken
