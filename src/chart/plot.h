#pragma once
// A picture of numbers: one SVG that needs nothing else, in light and in dark. Texts are given plain and are
// escaped here.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace unbroken {

/// From values to places on the page.
class Scale {
 public:
  static Scale linear(double low, double high) { return {low, high, false}; }
  /// 0 < low < high.
  static Scale logarithmic(double low, double high) { return {low, high, true}; }
  /// 0 at the low end, 1 at the high end; beyond them the end itself.
  double share(double value) const;
  bool holds(double value) const { return value >= low_ && value <= high_; }
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  Scale(double low, double high, bool is_logarithmic)
      : low_(low), high_(high), is_logarithmic_(is_logarithmic) {}
  double low_, high_;
  bool is_logarithmic_;
};

/// Round values within [low, high], about `count` of them.
std::vector<double> round_ticks(double low, double high, int count);

using Points = std::vector<std::pair<double, double>>;
/// At most some `buckets` times two points, which keep what a line through all of them shows: of each stretch
/// the lowest and the highest. `points` go from left to right.
Points thinned(const Points& points, std::size_t buckets);

struct PlotSize {
  double width = 860, height = 460, left = 64, right = 190, top = 56, bottom = 56;
};

struct LineStyle {
  std::string_view colour;  ///< of ours; empty: that of text
  double width = 1;
  std::string_view dash = "none";
};

class Plot {
 public:
  /// `about` is for readers who do not see it.
  Plot(const PlotSize& size, const Scale& x, const Scale& y, std::string_view title,
       std::string_view subtitle, std::string_view about);
  double x(double value) const;
  double y(double value) const;

  void x_tick(double value, std::string_view label);
  void y_tick(double value, std::string_view label);  ///< with a line across
  void x_title(std::string_view label);
  void line(const Points& points, const LineStyle& style);
  void area(const Points& below, const Points& above, std::string_view colour);
  /// A line from top to bottom; its label stands in the row from 0.
  void mark(double value, std::string_view label, int row, std::string_view dash);
  void segment(double x1, double y1, double x2, double y2, const LineStyle& style);
  void dot(double x_value, double y_value, std::string_view hint);
  /// A cross, such as where something ended.
  void cross(double x_value, double y_value, std::string_view colour, std::string_view hint);
  /// The next row to the right of the picture.
  void legend(std::string_view colour, std::string_view text);
  void note(std::string_view text);
  std::string finish() &&;

 private:
  void text(double x, double y, std::string_view anchor, std::string_view text);

  PlotSize size_;
  Scale x_, y_;
  std::string out_;
  double legend_y_;
};

}  // namespace unbroken
