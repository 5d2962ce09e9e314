#include "planner/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "chart/plot.h"
#include "chart/text.h"

namespace unbroken {

namespace {

constexpr int kPoints = 160;
constexpr double kReach = 30;  // times shorter and longer than the plan's interval

struct Part {
  const char* name;
  const char* colour;  // told apart with any colour vision (Okabe and Ito)
  double Waste::* value;
};
constexpr std::array<Part, 5> kParts{{{"recovery", "#999999", &Waste::recovery},
                                      {"persist lag", "#cc79a7", &Waste::persist_lag},
                                      {"slowdown", "#f0e442", &Waste::slowdown},
                                      {"stall", "#e69f00", &Waste::stall},
                                      {"lost work", "#56b4e9", &Waste::lost_work}}};

/// The curve, and the stretch of it that is shown.
class Curve {
 public:
  explicit Curve(const Plan& plan)
      : low(plan.saves.interval_s / kReach), high(plan.saves.interval_s * kReach) {
    for (int i = 0; i <= kPoints; ++i) {
      intervals.push_back(low * std::pow(high / low, static_cast<double>(i) / kPoints));
      waste.push_back(plan.saves.waste_at(intervals.back()));
    }
    const double best = std::clamp(plan.waste.sum(), 0.0, 1.0);
    for (const double reach : {1.0, 0.8, 0.4, 0.2, 0.08, 0.04, 0.02})
      if (reach >= 4 * best || reach == 1) top = reach;
  }
  bool shows(double interval_s) const { return interval_s >= low && interval_s <= high; }

  double low, high, top = 1;
  std::vector<double> intervals;
  std::vector<Waste> waste;
};

void draw_axes(Plot& plot, const Curve& curve) {
  for (int i = 0; i <= 4; ++i)
    plot.y_tick(curve.top * i / 4, fmt::format("{:.3g} %", 100 * curve.top * i / 4));
  static constexpr std::array<double, 15> kTicks{
      1e-3, 1e-2, 0.1, 1, 10, 60, 300, 1800, 7200, 43200, 259200, 1209600, 7776000, 31536000, 315360000};
  for (const double tick : kTicks)
    if (curve.shows(tick)) plot.x_tick(tick, format_duration(tick));
  plot.x_title("work between two saves");
}

/// Stacked, from the part that the interval does not change up to those that it trades.
void draw_areas(Plot& plot, const Curve& curve) {
  Points below;
  for (const double interval : curve.intervals) below.emplace_back(interval, 0);
  for (const Part& part : kParts) {
    Points above = below;
    bool is_there = false;
    for (std::size_t i = 0; i < above.size(); ++i) {
      const double value = curve.waste[i].*part.value;
      is_there |= value > 1e-6;
      above[i].second += value;
    }
    if (is_there) plot.area(below, above, part.colour);
    below = std::move(above);
  }
}

void draw_legend(Plot& plot, const Plan& plan) {
  for (auto part = kParts.rbegin(); part != kParts.rend(); ++part)
    if (const double value = plan.waste.*part->value; value > 1e-6)
      plot.legend(part->colour, fmt::format("{} {:.2f} %", part->name, 100 * value));
  plot.note(fmt::format("in all {:.2f} %", 100 * plan.waste.sum()));
}

void draw_marks(Plot& plot, const Plan& plan, const Curve& curve,
                const std::optional<ChartPoint>& simulated) {
  const auto mark = [&](double interval_s, std::string_view name, std::string_view dash, int row) {
    if (curve.shows(interval_s)) plot.mark(interval_s, name, row, dash);
  };
  const SavePlan& s = plan.saves;
  if (s.floor_s > 0) mark(s.floor_s, "floor", "2 4", 2);
  if (std::isfinite(plan.job.mtti_s) && std::abs(s.exact_s / s.interval_s - 1) > 0.02)
    mark(s.exact_s, "optimum", "6 3", 1);
  mark(s.interval_s, fmt::format("{} ({})", format_duration(s.interval_s), name_of(s.bound_by)), "none", 0);
  if (simulated) {
    plot.segment(s.interval_s, simulated->low, s.interval_s, simulated->high, {.colour = {}, .width = 2});
    plot.dot(s.interval_s, simulated->waste, fmt::format("simulated: {:.3f} %", 100 * simulated->waste));
  }
}

std::string title(const Plan& plan) {
  const std::string name = plan.job.preset.empty() ? "" : plan.job.preset + ": ";
  const std::string failures = std::isfinite(plan.job.mtti_s)
                                   ? "one failure every " + format_duration(plan.job.mtti_s)
                                   : "no failures";
  return fmt::format("{}{:.0f} accelerators, {}: efficiency {:.2f} %", name, plan.job.gpus, failures,
                     100 * plan.efficiency);
}

}  // namespace

std::string chart_svg(const Plan& plan, const std::optional<ChartPoint>& simulated) {
  const Curve curve(plan);
  Plot plot({}, Scale::logarithmic(curve.low, curve.high), Scale::linear(0, curve.top), title(plan),
            "share of all time that is not new work",
            "The share of all time that is lost, in its parts, over the work between two saves");
  draw_areas(plot, curve);
  draw_axes(plot, curve);
  draw_marks(plot, plan, curve, simulated);
  draw_legend(plot, plan);
  return std::move(plot).finish();
}

std::string chart_html(const Plan& plan, const std::optional<ChartPoint>& simulated) {
  std::string rows;
  const Curve curve(plan);
  for (std::size_t i = 0; i < curve.intervals.size(); i += 8) {
    const Waste& w = curve.waste[i];
    rows += fmt::format(
        "<tr><td>{}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td>"
        "<td>{:.3f}</td></tr>\n",
        format_duration(curve.intervals[i]), 100 * w.sum(), 100 * w.stall, 100 * w.lost_work,
        100 * w.recovery, 100 * w.persist_lag, 100 * w.slowdown);
  }
  return html_page(
      title(plan),
      fmt::format("<figure>{}</figure>\n<pre>{}</pre>\n<table>\n<tr><th>interval</th><th>waste %</th><th>"
                  "stall</th><th>lost work</th><th>recovery</th><th>persist lag</th><th>slowdown</th></tr>\n"
                  "{}</table>\n",
                  chart_svg(plan, simulated), escaped(plan_text(plan)), rows));
}

}  // namespace unbroken
