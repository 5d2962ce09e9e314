#include "drill/report.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

Series losses(std::uint64_t from, std::uint64_t to) {
  Series out;
  for (std::uint64_t step = from; step <= to; ++step)
    out[step]["loss"] = std::to_string(1.0 / static_cast<double>(step));
  return out;
}

Life life(std::uint64_t began, std::uint64_t last, const std::string& killed) {
  Life out{.began = began,
           .is_resumed = began > 0,
           .killed = killed,
           .ended = "SIGKILL",
           .torn_file = {},
           .last = last,
           .steps = last - began,
           .seconds = 1,
           .series = losses(began + 1, last)};
  return out;
}

DrillResult killed_twice() {
  DrillResult out;
  out.steps = 20;
  out.kills = 2;
  out.resumes = 2;
  out.is_printed = true;
  out.straight = losses(1, 20);
  out.lives = {life(0, 8, "SIGKILL at step 8"), life(5, 15, "SIGTERM at the first write to last.pt"),
               life(10, 20, "")};
  out.lives.back().ended = "finished";
  return out;
}

TEST(Report, HasBothCurvesEveryKillAndTheLives) {
  const std::string html = report_html(
      {.command = {"python", "train.py"}, .seed = 7, .kills_wanted = 2, .at = "points", .refusal = {}},
      killed_twice());
  EXPECT_EQ(count(html, "<polyline"), 4U);  // the undisturbed run and three lives
  EXPECT_EQ(count(html, ">kill 1<") + count(html, ">kill 2<"), 2U);
  EXPECT_EQ(count(html, "<path "), 2U);  // two crosses
  EXPECT_EQ(count(html, "<tr>"), 4U);    // a head and three lives
  EXPECT_NE(html.find("continues bit for bit"), std::string::npos);
  EXPECT_NE(html.find("SIGTERM at the first write to last.pt"), std::string::npos);
  EXPECT_EQ(html.find("First difference"), std::string::npos);
}

TEST(Report, NamesTheFirstDifferenceAndWhatExplainsIt) {
  DrillResult result = killed_twice();
  result.difference = Difference{7, "loss", "0.1", "0.2", 2};
  result.final_differs = {"optimizer.state.0.exp_avg"};
  const std::string html = report_html({}, result);
  EXPECT_NE(html.find("First difference"), std::string::npos);
  EXPECT_NE(html.find("does not continue bit for bit"), std::string::npos);
  EXPECT_NE(html.find(">first difference<"), std::string::npos);
  EXPECT_NE(html.find("The first loss after the resume is right and the second is not"), std::string::npos);
  EXPECT_NE(html.find("optimizer.state.0.exp_avg"), std::string::npos);
}

TEST(Report, SaysWhatIsNotAttached) {
  DrillResult result = killed_twice();
  result.difference = Difference{7, "w", "1", "2", 2};
  result.not_attached = {"trainer.optimizer"};
  EXPECT_GE(count(report_html({}, result), "trainer.optimizer"), 2U);
}

TEST(Report, LetsNoTextOfTheCommandBeMarkup) {
  const std::string evil = "</title></style></svg><script>alert('x')</script>\xff\x1b[31m\"";
  DrillResult result = killed_twice();
  for (Life& one : result.lives) {
    one.killed = one.ended = evil;
    one.series[9][evil] = evil;
  }
  result.straight[9][evil] = "1";
  result.straight[9]["loss"] = evil;
  result.difference = Difference{9, evil, evil, evil, 2};
  result.failure = evil;
  result.not_attached = result.final_differs = {evil};
  const std::string html =
      report_html({.command = {evil}, .seed = 1, .kills_wanted = 1, .at = evil, .refusal = evil}, result);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("alert('"), std::string::npos);
  EXPECT_EQ(html.find('\x1b'), std::string::npos);
  EXPECT_EQ(html.find('\xff'), std::string::npos);
  EXPECT_EQ(count(html, "</title>"), count(html, "<title>"));
  EXPECT_EQ(count(html, "</svg>"), count(html, "<svg "));
}

TEST(Report, StaysSmallWhateverTheRun) {
  DrillResult result = killed_twice();
  result.straight = losses(1, 200'000);
  result.lives.resize(3000, life(5, 9, std::string(100'000, 'k')));
  result.final_differs.resize(100'000, "name");
  EXPECT_LT(report_html({}, result).size(), std::size_t{8} << 20);
}

TEST(Report, DrawsALossThatIsNoNumberAndOneStep) {
  DrillResult result;
  result.straight[1]["loss"] = "nan";
  result.straight[1]["b_loss"] = "3";
  const std::string html = report_html({}, result);
  EXPECT_NE(html.find("no value is a number"), std::string::npos);
  EXPECT_EQ(count(html, "<svg "), 1U);
  EXPECT_EQ(html.find("nan,"), std::string::npos);
}

TEST(Explanation, BlamesNoLossThatIsRight) {
  DrillResult result = killed_twice();
  for (auto* series : {&result.straight, &result.lives[1].series})
    for (auto& [step, values] : *series) values["loss"] = "1";
  result.difference = Difference{6, "lr", "0.1", "0.2", 2};
  EXPECT_TRUE(explanation(result).starts_with("lr differs in a step whose loss is right"))
      << explanation(result);
  EXPECT_NE(explanation(result).find("schedule"), std::string::npos);
  result.lives[1].series[6]["loss"] = "2";
  EXPECT_NE(explanation(result).find("differs already"), std::string::npos);
}

TEST(Explanation, TellsWhereALossDiffersAfterAResume) {
  DrillResult result = killed_twice();
  result.difference = Difference{6, "loss", "1", "2", 2};
  EXPECT_NE(explanation(result).find("differs already"), std::string::npos);
  result.difference->step = 7;
  EXPECT_NE(explanation(result).find("optimizer"), std::string::npos);
  result.difference->step = 9;
  EXPECT_TRUE(explanation(result).starts_with("3 losses"));
  result.straight.erase(4);  // not every step is told of
  EXPECT_EQ(explanation(result), "");
}

TEST(Explanation, NamesTheFileThatAKillHasTorn) {
  DrillResult result = killed_twice();
  result.lives[1].torn_file = "last.pt";
  result.failure = "life 3 ended with status 1";
  EXPECT_TRUE(explanation(result).starts_with("last.pt was being written when life 2 was killed"));
}

}  // namespace
}  // namespace unbroken
