#include "chart/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chart/text.h"

namespace unbroken {

namespace {

constexpr std::string_view kStyle =
    "svg.plot{font:12px sans-serif;fill:#222;background:#fff}.plot .ink{stroke:#222}.plot .grid{stroke:#ddd}"
    "@media(prefers-color-scheme:dark){svg.plot{fill:#ddd;background:#161616}.plot .ink{stroke:#ddd}"
    ".plot .grid{stroke:#3a3a3a}}";

std::string stroke(const LineStyle& style) {
  const std::string how =
      fmt::format("stroke-width='{}' stroke-dasharray='{}' fill='none'", style.width, style.dash);
  return style.colour.empty() ? "class='ink' " + how : fmt::format("stroke='{}' {}", style.colour, how);
}

}  // namespace

double Scale::share(double value) const {
  const double clamped = std::clamp(value, low_, high_);
  if (high_ <= low_) return 0.5;
  return is_logarithmic_ ? std::log(clamped / low_) / std::log(high_ / low_)
                         : (clamped - low_) / (high_ - low_);
}

std::vector<double> round_ticks(double low, double high, int count) {
  std::vector<double> out;
  const double wanted = (high - low) / std::max(1, count);
  if (!(wanted > 0) || !std::isfinite(wanted)) return {low};
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= wanted) step = factor * power;
  if (!(step > 0)) return {low};
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i <= 2 * count + 2 && (first + i) * step <= high + step * 1e-9; ++i) {
    const double tick = (first + i) * step;
    out.push_back(std::abs(tick) < step * 1e-6 ? 0 : tick);
  }
  return out;
}

Points thinned(const Points& points, std::size_t buckets) {
  if (points.size() <= 2 * buckets) return points;
  Points out;
  for (std::size_t i = 0; i < buckets; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i * points.size() / buckets);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((i + 1) * points.size() / buckets);
    auto [low, high] =
        std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (high < low) std::swap(low, high);
    out.push_back(*low);
    if (low != high) out.push_back(*high);
  }
  return out;
}

Plot::Plot(const PlotSize& size, const Scale& x, const Scale& y, std::string_view title,
           std::string_view subtitle, std::string_view about)
    : size_(size), x_(x), y_(y), legend_y_(size.top + 8) {
  out_ = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' class='plot' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "role='img'>\n<title>{2}</title>\n<desc>{3}</desc>\n<style>{4}</style>\n"
      "<text x='{5}' y='24' font-size='15'>{2}</text>\n",
      size_.width, size_.height, escaped(title), escaped(about), kStyle, size_.left);
  text(size_.left, 42, "start", subtitle);
}

double Plot::x(double value) const {
  return size_.left + (size_.width - size_.left - size_.right) * x_.share(value);
}

double Plot::y(double value) const {
  return size_.height - size_.bottom - (size_.height - size_.top - size_.bottom) * y_.share(value);
}

void Plot::text(double x, double y, std::string_view anchor, std::string_view text) {
  out_ += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>\n", x, y, anchor,
                      escaped(text, 200));
}

void Plot::x_tick(double value, std::string_view label) {
  const double base = size_.height - size_.bottom;
  out_ += fmt::format("<line class='grid' x1='{0:.1f}' y1='{1}' x2='{0:.1f}' y2='{2}'/>", x(value), base,
                      base + 5);
  text(x(value), base + 18, "middle", label);
}

void Plot::y_tick(double value, std::string_view label) {
  out_ += fmt::format("<line class='grid' x1='{0}' y1='{1:.1f}' x2='{2}' y2='{1:.1f}'/>", size_.left,
                      y(value), size_.width - size_.right);
  text(size_.left - 6, y(value) + 4, "end", label);
}

void Plot::x_title(std::string_view label) {
  text((size_.left + size_.width - size_.right) / 2, size_.height - 14, "middle", label);
}

void Plot::line(const Points& points, const LineStyle& style) {
  out_ += fmt::format("<polyline {} points='", stroke(style));
  for (const auto& [px, py] : points) out_ += fmt::format("{:.1f},{:.1f} ", x(px), y(py));
  out_ += "'/>\n";
}

void Plot::area(const Points& below, const Points& above, std::string_view colour) {
  out_ += fmt::format("<polygon fill='{}' fill-opacity='0.8' points='", colour);
  for (const auto& [px, py] : above) out_ += fmt::format("{:.1f},{:.1f} ", x(px), y(py));
  for (auto point = below.rbegin(); point != below.rend(); ++point)
    out_ += fmt::format("{:.1f},{:.1f} ", x(point->first), y(point->second));
  out_ += "'/>\n";
}

void Plot::mark(double value, std::string_view label, int row, std::string_view dash) {
  out_ +=
      fmt::format("<line class='ink' x1='{0:.1f}' y1='{1}' x2='{0:.1f}' y2='{2}' stroke-dasharray='{3}'/>",
                  x(value), size_.top, size_.height - size_.bottom, dash);
  text(x(value) + 4, size_.top + 12 + 16 * row, "start", label);
}

void Plot::segment(double x1, double y1, double x2, double y2, const LineStyle& style) {
  out_ += fmt::format("<line {} x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}'/>\n", stroke(style), x(x1),
                      y(y1), x(x2), y(y2));
}

void Plot::dot(double x_value, double y_value, std::string_view hint) {
  out_ += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='4'><title>{}</title></circle>\n", x(x_value),
                      y(y_value), escaped(hint));
}

void Plot::cross(double x_value, double y_value, std::string_view colour, std::string_view hint) {
  out_ += fmt::format(
      "<path transform='translate({:.1f} {:.1f})' d='M-5-5L5 5M-5 5L5-5' stroke='{}' "
      "stroke-width='2.5'><title>{}</title></path>\n",
      x(x_value), y(y_value), colour, escaped(hint, 200));
}

void Plot::legend(std::string_view colour, std::string_view label) {
  out_ += fmt::format("<rect x='{}' y='{}' width='12' height='12' fill='{}' fill-opacity='0.8'/>",
                      size_.width - size_.right + 16, legend_y_ - 10, colour);
  text(size_.width - size_.right + 34, legend_y_, "start", label);
  legend_y_ += 20;
}

void Plot::note(std::string_view label) {
  text(size_.width - size_.right + 16, legend_y_ + 4, "start", label);
  legend_y_ += 20;
}

std::string Plot::finish() && {
  out_ += "</svg>\n";
  return std::move(out_);
}

}  // namespace unbroken
