#include "planner/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/text.h"

namespace unbroken {

namespace {

constexpr double kWidth = 860, kHeight = 460, kLeft = 64, kRight = 190, kTop = 56, kBottom = 56;
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

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

/// Where the curve lies on the page.
class Frame {
 public:
  explicit Frame(const Plan& plan)
      : low_(plan.saves.interval_s / kReach), high_(plan.saves.interval_s * kReach) {
    for (int i = 0; i <= kPoints; ++i) {
      intervals.push_back(low_ * std::pow(high_ / low_, static_cast<double>(i) / kPoints));
      waste.push_back(plan.saves.waste_at(intervals.back()));
    }
    const double best = std::clamp(plan.waste.sum(), 0.0, 1.0);
    for (const double top : {1.0, 0.8, 0.4, 0.2, 0.08, 0.04, 0.02})
      if (top >= 4 * best || top == 1) top_ = top;
  }
  double x(double interval_s) const {
    return kLeft + (kWidth - kLeft - kRight) * std::log(interval_s / low_) / std::log(high_ / low_);
  }
  double y(double share) const {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * std::clamp(share, 0.0, top_) / top_;
  }
  double top() const { return top_; }
  bool shows(double interval_s) const { return interval_s >= low_ && interval_s <= high_; }

  std::vector<double> intervals;
  std::vector<Waste> waste;

 private:
  double low_, high_, top_ = 1;
};

std::string axes(const Frame& frame) {
  std::string out;
  for (int i = 0; i <= 4; ++i) {
    const double share = frame.top() * i / 4;
    out += fmt::format(
        "<line x1='{0}' y1='{1:.1f}' x2='{2}' y2='{1:.1f}' stroke='#ddd'/><text x='{3}' y='{4:.1f}' "
        "text-anchor='end'>{5:.3g} %</text>\n",
        kLeft, frame.y(share), kWidth - kRight, kLeft - 6, frame.y(share) + 4, 100 * share);
  }
  static constexpr std::array<double, 15> kTicks{
      1e-3, 1e-2, 0.1, 1, 10, 60, 300, 1800, 7200, 43200, 259200, 1209600, 7776000, 31536000, 315360000};
  for (const double tick : kTicks)
    if (frame.shows(tick))
      out += fmt::format(
          "<line x1='{0:.1f}' y1='{1}' x2='{0:.1f}' y2='{2}' stroke='#bbb'/><text x='{0:.1f}' y='{3}' "
          "text-anchor='middle'>{4}</text>\n",
          frame.x(tick), kHeight - kBottom, kHeight - kBottom + 5, kHeight - kBottom + 18,
          format_duration(tick));
  out += fmt::format("<text x='{:.0f}' y='{}' text-anchor='middle'>work between two saves</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 14);
  return out;
}

/// Stacked areas, from the part that the interval does not change up to those that it trades.
std::string areas(const Frame& frame) {
  std::string out;
  std::vector<double> below(frame.intervals.size(), 0);
  for (const Part& part : kParts) {
    std::string forth, back;
    bool is_there = false;
    for (std::size_t i = 0; i < below.size(); ++i) {
      const double value = frame.waste[i].*part.value;
      is_there |= value > 1e-6;
      back = fmt::format("{:.1f},{:.1f} ", frame.x(frame.intervals[i]), frame.y(below[i])) + back;
      below[i] += value;
      forth += fmt::format("{:.1f},{:.1f} ", frame.x(frame.intervals[i]), frame.y(below[i]));
    }
    if (is_there)
      out += fmt::format("<polygon fill='{}' fill-opacity='0.8' points='{}{}'/>\n", part.colour, forth, back);
  }
  return out;
}

std::string legend(const Plan& plan) {
  std::string out;
  double y = kTop + 8;
  for (auto part = kParts.rbegin(); part != kParts.rend(); ++part) {
    const double value = plan.waste.*part->value;
    if (value <= 1e-6) continue;
    out += fmt::format(
        "<rect x='{}' y='{}' width='12' height='12' fill='{}' fill-opacity='0.8'/><text x='{}' "
        "y='{}'>{} {:.2f} %</text>\n",
        kWidth - kRight + 16, y - 10, part->colour, kWidth - kRight + 34, y, part->name, 100 * value);
    y += 20;
  }
  out += fmt::format("<text x='{}' y='{}' font-weight='bold'>in all {:.2f} %</text>\n", kWidth - kRight + 16,
                     y + 4, 100 * plan.waste.sum());
  return out;
}

std::string marks(const Plan& plan, const Frame& frame, const std::optional<ChartPoint>& simulated) {
  std::string out;
  const auto mark = [&](double interval_s, const char* name, const char* dash, double label_y) {
    if (!frame.shows(interval_s)) return;
    out += fmt::format(
        "<line x1='{0:.1f}' y1='{1}' x2='{0:.1f}' y2='{2}' stroke='#222' stroke-dasharray='{3}'/><text "
        "x='{4:.1f}' y='{5}'>{6}</text>\n",
        frame.x(interval_s), kTop, kHeight - kBottom, dash, frame.x(interval_s) + 4, label_y, name);
  };
  const SavePlan& s = plan.saves;
  if (s.floor_s > 0) mark(s.floor_s, "floor", "2 4", kTop + 44);
  if (std::abs(s.exact_s / s.interval_s - 1) > 0.02) mark(s.exact_s, "optimum", "6 3", kTop + 28);
  mark(s.interval_s, fmt::format("{} ({})", format_duration(s.interval_s), name_of(s.bound_by)).c_str(),
       "none", kTop + 12);
  if (simulated) {
    out += fmt::format(
        "<line x1='{0:.1f}' y1='{1:.1f}' x2='{0:.1f}' y2='{2:.1f}' stroke='#000' stroke-width='2'/><circle "
        "cx='{0:.1f}' cy='{3:.1f}' r='4'><title>simulated: {4:.3f} %</title></circle>\n",
        frame.x(s.interval_s), frame.y(simulated->low), frame.y(simulated->high), frame.y(simulated->waste),
        100 * simulated->waste);
  }
  return out;
}

std::string title(const Plan& plan) {
  const std::string name = plan.job.preset.empty() ? "" : plan.job.preset + ": ";
  return fmt::format("{}{:.0f} accelerators, one failure every {}: efficiency {:.2f} %", name, plan.job.gpus,
                     format_duration(plan.job.mtti_s), 100 * plan.efficiency);
}

}  // namespace

std::string chart_svg(const Plan& plan, const std::optional<ChartPoint>& simulated) {
  const Frame frame(plan);
  return fmt::format(
             "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
             "font-family='sans-serif' font-size='12' role='img'>\n<title>{2}</title>\n<rect width='100%' "
             "height='100%' fill='white'/>\n<text x='{3}' y='24' font-size='15'>{2}</text>\n<text x='{3}' "
             "y='42'>share of all time that is not new work</text>\n",
             kWidth, kHeight, escaped(title(plan)), kLeft) +
         areas(frame) + axes(frame) + marks(plan, frame, simulated) + legend(plan) + "</svg>\n";
}

std::string chart_html(const Plan& plan, const std::optional<ChartPoint>& simulated) {
  std::string rows;
  const Frame frame(plan);
  for (std::size_t i = 0; i < frame.intervals.size(); i += 8) {
    const Waste& w = frame.waste[i];
    rows += fmt::format(
        "<tr><td>{}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td><td>{:.3f}</td>"
        "<td>{:.3f}</td></tr>\n",
        format_duration(frame.intervals[i]), 100 * w.sum(), 100 * w.stall, 100 * w.lost_work,
        100 * w.recovery, 100 * w.persist_lag, 100 * w.slowdown);
  }
  return fmt::format(
      "<!doctype html>\n<html lang='en'>\n<head><meta charset='utf-8'><title>{0}</title>\n<style>body{{"
      "font-family:sans-serif;max-width:56em;margin:2em auto}}table{{border-collapse:collapse}}td,th{{"
      "padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}}pre{{white-space:pre-wrap}}"
      "</style></head>\n<body>\n{1}<pre>{2}</pre>\n<table>\n<tr><th>interval</th><th>waste %</th><th>"
      "stall</th><th>lost work</th><th>recovery</th><th>persist lag</th><th>slowdown</th></tr>\n{3}"
      "</table>\n</body>\n</html>\n",
      escaped(title(plan)), chart_svg(plan, simulated), escaped(plan_text(plan)), rows);
}

}  // namespace unbroken
