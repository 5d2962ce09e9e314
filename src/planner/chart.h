#pragma once
// The waste over the interval as a picture: what saving too often costs, what saving too rarely costs, and
// where the plan stands between them. One self-contained SVG, or an HTML page around it with the numbers as a
// table.
#include <optional>
#include <string>

#include "planner/plan.h"

namespace unbroken {

/// A measured or simulated waste to be shown beside the curve, with 95 % between low and high.
struct ChartPoint {
  double waste = 0, low = 0, high = 0;
};

std::string chart_svg(const Plan& plan, const std::optional<ChartPoint>& simulated = {});
std::string chart_html(const Plan& plan, const std::optional<ChartPoint>& simulated = {});

}  // namespace unbroken
