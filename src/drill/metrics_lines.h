#pragma once
// Lines of a file of metrics: CSV with a header, or one JSON object a line. What counts is the step and every
// column whose name has "loss" in it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "drill/series.h"

namespace unbroken {

inline constexpr std::size_t kMetricsLineBytesMax = std::size_t{1} << 20;

class MetricsLines {
 public:
  enum class Kind : std::uint8_t { csv, jsonl };
  /// By what `path` ends in. Errors: bad_argument.
  static Result<Kind> kind_of(std::string_view path);
  explicit MetricsLines(Kind kind) : kind_(kind) {}

  /// One line; of CSV the first one is the header. What says nothing of a step or a loss is left out. Errors:
  /// bad_argument (too many steps).
  Result<> add(std::string_view line, Series& series);
  /// The file begins again.
  void begin_anew() { columns_.clear(); }
  /// Where nothing was found: the names that there are, for a message; empty where no line was read.
  std::string names() const;

 private:
  Result<> add_csv(std::string_view line, Series& series);
  Result<> add_json(std::string_view line, Series& series);

  Kind kind_;
  std::vector<std::string> columns_;
  std::vector<std::string> names_seen_;
};

}  // namespace unbroken
