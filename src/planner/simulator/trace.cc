// The lives of a job that was watched, read from a CSV.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "base/utf8.h"
#include "planner/simulator/simulate.h"

namespace unbroken {

namespace {

/// Where the columns of a trace stand in a line.
struct Columns {
  static constexpr std::size_t kNone = SIZE_MAX;
  std::size_t time = kNone, recovery = kNone, interval = kNone;
};

/// Spreadsheets put a mark in front of a file and quotes around cells.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> out = split(line, ',');
  for (std::string_view& cell : out)
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') cell = cell.substr(1, cell.size() - 2);
  return out;
}

/// A column `node` is for people; no other is passed over, as it may be one of ours that is misspelt.
Result<Columns> columns_of(const std::vector<std::string_view>& header) {
  Columns out;
  std::size_t node = Columns::kNone;
  const std::array<std::pair<std::string_view, std::size_t*>, 4> known{
      {{"time_s", &out.time}, {"recovery_s", &out.recovery}, {"interval_s", &out.interval}, {"node", &node}}};
  for (std::size_t i = 0; i < header.size(); ++i) {
    const std::string name = printable(header[i].substr(0, 64));
    const auto* const it =
        std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.first == header[i]; });
    if (it == known.end())
      return Error(Code::bad_argument,
                   fmt::format("the column \"{}\" is none of time_s, recovery_s, interval_s, node", name));
    if (*it->second != Columns::kNone)
      return Error(Code::bad_argument, fmt::format("the column \"{}\" stands there twice", name));
    *it->second = i;
  }
  if (out.time == Columns::kNone) return Error(Code::bad_argument, "the header has no column time_s");
  return out;
}

Result<double> seconds_in(std::string_view cell, bool may_be_infinite) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool is_number = error == std::errc() && end == cell.data() + cell.size() && !std::isnan(value);
  if (!is_number || (std::isinf(value) && !may_be_infinite))
    return Error(Code::bad_argument, fmt::format("\"{}\" is not a number of seconds", cell.substr(0, 64)));
  if (value < 0) return Error(Code::bad_argument, fmt::format("{} is negative", value));
  return value;
}

/// Of a line with as many cells as the header.
Result<TracedLife> life_in(const std::vector<std::string_view>& cells, const Columns& columns) {
  const auto cell = [&](std::size_t column) {
    return column == Columns::kNone ? std::string_view() : cells[column];
  };
  TracedLife out;
  UNBROKEN_TRY(out.ends_s, seconds_in(cell(columns.time), false));
  if (const std::string_view text = cell(columns.recovery); !text.empty()) {
    UNBROKEN_TRY(out.recovery_s, seconds_in(text, true));
  }
  if (const std::string_view text = cell(columns.interval); !text.empty()) {
    UNBROKEN_TRY(out.interval_s, seconds_in(text, true));
    if (!(*out.interval_s > 0)) return Error(Code::bad_argument, "interval_s: 0 is no time to work");
  }
  return out;
}

}  // namespace

Result<std::vector<TracedLife>> parse_trace(std::string_view csv) {
  const auto refuse = [](std::size_t line, std::string_view why) {
    return Error(Code::bad_argument, fmt::format("--trace: line {}: {}", line, why));
  };
  std::vector<TracedLife> out;
  Columns columns;
  std::size_t width = 0;  // of the header
  std::size_t number = 0;
  if (csv.starts_with(kByteOrderMark)) csv.remove_prefix(kByteOrderMark.size());
  for (std::string_view line : split(csv, '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    const auto cells = cells_of(line);
    if (width == 0) {
      auto header = columns_of(cells);
      if (!header.ok()) return refuse(number, header.error().what());
      columns = header.value();
      width = cells.size();
      continue;
    }
    if (cells.size() != width)
      return refuse(number, fmt::format("has {} of the header's {} cells", cells.size(), width));
    const auto life = life_in(cells, columns);
    if (!life.ok()) return refuse(number, life.error().what());
    const double ends_s = life.value().ends_s;
    if (!out.empty() && ends_s < out.back().ends_s)
      return refuse(number,
                    fmt::format("{} comes after {}: times must be sorted", ends_s, out.back().ends_s));
    out.push_back(life.value());
  }
  if (width == 0) return refuse(1, "the header has no column time_s");
  return out;
}

}  // namespace unbroken
