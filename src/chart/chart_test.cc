#include <gtest/gtest.h>

#include <cmath>

#include "chart/plot.h"
#include "chart/text.h"

namespace unbroken {
namespace {

TEST(Escaped, LeavesNoMarkup) {
  EXPECT_EQ(escaped("<b a='1' c=\"2\">&amp;"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;");
}

TEST(Escaped, ReplacesWhatNoReaderSees) {
  constexpr const char* kUnknown = "\xef\xbf\xbd";
  for (const std::string_view text :
       {std::string_view("\0", 1), std::string_view("\x1b"), std::string_view("\x7f"),
        std::string_view("\xc2\x85"), std::string_view("\xe2\x80\xae"), std::string_view("\xe2\x81\xa6"),
        std::string_view("\xff"), std::string_view("\xc3")})
    EXPECT_EQ(escaped(text), kUnknown);
  EXPECT_EQ(escaped("gr\xc3\xbc\xc3\x9f\n\xf0\x9f\x94\xa5"), "gr\xc3\xbc\xc3\x9f\n\xf0\x9f\x94\xa5");
  EXPECT_EQ(escaped("\xed\xa0\x80").size(), 9U);  // half of a pair, in three bytes
}

TEST(Escaped, KeepsTheFrontOfALongText) {
  EXPECT_EQ(escaped("abcdef", 3), "abc...");
  EXPECT_EQ(escaped("abc", 3), "abc");
}

TEST(Scale, GoesFromEndToEnd) {
  const Scale line = Scale::linear(10, 20);
  EXPECT_EQ(line.share(10), 0);
  EXPECT_EQ(line.share(15), 0.5);
  EXPECT_EQ(line.share(30), 1);
  EXPECT_EQ(Scale::logarithmic(1, 100).share(10), 0.5);
  EXPECT_EQ(Scale::linear(3, 3).share(3), 0.5);
}

TEST(Ticks, AreRoundAndWithin) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(round_ticks(5, 5, 4), (std::vector<double>{5}));
  for (const double high : {1e-300, 3e-7, 1.0, 7e12, 1e300}) {
    const auto ticks = round_ticks(0, high, 5);
    ASSERT_GE(ticks.size(), 2U) << high;
    EXPECT_LE(ticks.size(), 12U) << high;
    EXPECT_LE(ticks.back(), high * 1.001);
  }
}

TEST(Thinned, KeepsEveryPeak) {
  Points points;
  for (int i = 0; i < 100'000; ++i) points.emplace_back(i, i == 777 ? 9.0 : i == 50'000 ? -9.0 : 0.0);
  const Points out = thinned(points, 100);
  EXPECT_LE(out.size(), 200U);
  EXPECT_NE(std::find(out.begin(), out.end(), std::pair(777.0, 9.0)), out.end());
  EXPECT_NE(std::find(out.begin(), out.end(), std::pair(50'000.0, -9.0)), out.end());
  EXPECT_TRUE(std::is_sorted(out.begin(), out.end(), [](auto& a, auto& b) { return a.first < b.first; }));
}

TEST(Plot, IsOneSvgWhoseTextsAreEscaped) {
  Plot plot({}, Scale::linear(0, 1), Scale::linear(0, 1), "<t>", "<s>", "<a>");
  plot.y_tick(0.5, "<y>");
  plot.mark(0.5, "<m>", 0, "none");
  plot.cross(0.5, 0.5, "#fff", "<c>");
  plot.legend("#fff", "<l>");
  const std::string svg = std::move(plot).finish();
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* text : {"<t>", "<s>", "<a>", "<y>", "<m>", "<c>", "<l>"})
    EXPECT_EQ(svg.find(text), std::string::npos) << text;
}

TEST(Page, FetchesAndRunsNothing) {
  const std::string page = html_page("a <b>", "<p>body</p>");
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find("a &lt;b&gt;"), std::string::npos);
  EXPECT_EQ(page.find("http"), page.find("http-equiv"));
}

}  // namespace
}  // namespace unbroken
