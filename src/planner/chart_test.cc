#include "planner/chart.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

Plan of_preset(std::string_view name) {
  return make_plan(job_inputs(preset_settings(name).value(), std::string(name)).value()).value();
}

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Chart, DrawsEveryPreset) {
  for (const Preset& preset : presets()) {
    const std::string svg = chart_svg(of_preset(preset.name));
    EXPECT_TRUE(svg.starts_with("<svg ")) << preset.name;
    EXPECT_TRUE(svg.ends_with("</svg>\n")) << preset.name;
    EXPECT_GE(count(svg, "<polygon "), 2u) << preset.name;
    EXPECT_EQ(svg.find("nan"), std::string::npos) << preset.name;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << preset.name;
    EXPECT_EQ(count(svg, "<text"), count(svg, "</text>")) << preset.name;
  }
}

TEST(Chart, MarksWhatWasSimulated) {
  const Plan plan = of_preset("llama3");
  EXPECT_EQ(count(chart_svg(plan), "<circle"), 0u);
  EXPECT_EQ(count(chart_svg(plan, ChartPoint{0.12, 0.11, 0.13}), "<circle"), 1u);
}

TEST(Chart, IsAPageWithItsNumbers) {
  const std::string html = chart_html(of_preset("rsc-1"));
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_EQ(count(html, "<svg "), 1u);
  EXPECT_GT(count(html, "<tr>"), 10u);
  EXPECT_EQ(count(html, "http://"), 1u);  // the name space of SVG: nothing is fetched
}

}  // namespace
}  // namespace unbroken
