#include "drill/metrics_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/json.h"

namespace unbroken {

namespace {

constexpr std::array<std::string_view, 6> kStepNames{"step",      "global_step", "_step",
                                                     "iteration", "iter",        "steps"};
constexpr std::array<std::string_view, 3> kConstants{"NaN", "-Infinity", "Infinity"};
constexpr std::size_t kColumnsMax = 4096;

/// As RFC 4180 has it; quotes that are never closed end with the line.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> out(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && is_quoted && i + 1 < line.size() && line[i + 1] == '"')
      out.back() += line[++i];
    else if (c == '"')
      is_quoted = !is_quoted;
    else if (c == ',' && !is_quoted && out.size() < kColumnsMax)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

bool is_loss(std::string_view name) {
  constexpr std::string_view kWord = "loss";
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + ('a' - 'A') : a) == b; };
  return std::search(name.begin(), name.end(), kWord.begin(), kWord.end(), same) != name.end();
}

/// Python writes NaN and Infinity where JSON has no numbers; put in quotes they are what we write ourselves.
std::string with_quoted_constants(std::string_view line) {
  std::string out;
  bool is_text = false;
  for (std::size_t i = 0; i < line.size();) {
    if (!is_text) {
      const auto found = std::find_if(kConstants.begin(), kConstants.end(), [&](std::string_view word) {
        return line.substr(i).starts_with(word);
      });
      if (found != kConstants.end()) {
        out += fmt::format("\"{}\"", *found);
        i += found->size();
        continue;
      }
    }
    if (line[i] == '"') is_text = !is_text;
    if (is_text && line[i] == '\\' && i + 1 < line.size()) out += line[i++];
    out += line[i++];
  }
  return out;
}

std::optional<std::string> text_of(const Json& value) {
  if (value.is_number()) return value.dump();
  if (value.is_string() &&
      std::find(kConstants.begin(), kConstants.end(), value.get<std::string>()) != kConstants.end())
    return value.get<std::string>();
  return std::nullopt;
}

}  // namespace

Result<MetricsLines::Kind> MetricsLines::kind_of(std::string_view path) {
  if (path.ends_with(".csv")) return Kind::csv;
  if (path.ends_with(".jsonl")) return Kind::jsonl;
  return Error(Code::bad_argument, fmt::format("{}: a name that ends in .csv or .jsonl is needed", path));
}

Result<> MetricsLines::add(std::string_view line, Series& series) {
  return kind_ == Kind::csv ? add_csv(line, series) : add_json(line, series);
}

Result<> MetricsLines::add_csv(std::string_view line, Series& series) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (columns_.empty() && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  const std::vector<std::string> cells = cells_of(line);
  if (columns_.empty()) {
    columns_ = names_seen_ = cells;
    return Done{};
  }
  std::optional<std::uint64_t> step;
  for (const std::string_view name : kStepNames) {
    const auto column =
        static_cast<std::size_t>(std::find(columns_.begin(), columns_.end(), name) - columns_.begin());
    if (column == columns_.size()) continue;
    if (column < cells.size()) step = step_of_text(cells[column]);
    break;
  }
  if (!step) return Done{};
  for (std::size_t i = 0; i < std::min(cells.size(), columns_.size()); ++i)
    if (is_loss(columns_[i]) && !cells[i].empty()) UNBROKEN_DO(put(series, *step, columns_[i], cells[i]));
  return Done{};
}

Result<> MetricsLines::add_json(std::string_view line, Series& series) {
  auto parsed = parse_json(line, {.bytes = kMetricsLineBytesMax, .nodes = 65536});
  if (!parsed.ok()) parsed = parse_json(with_quoted_constants(line), {.nodes = 65536});
  if (!parsed.ok() || !parsed.value().is_object()) return Done{};
  const Json& object = parsed.value();
  if (names_seen_.empty())
    for (const auto& [name, unused] : object.items()) names_seen_.push_back(name);
  std::optional<std::uint64_t> step;
  for (const std::string_view name : kStepNames) {
    const auto found = object.find(name);
    if (found == object.end()) continue;
    if (found->is_number()) step = step_of_text(found->dump());
    break;
  }
  if (!step) return Done{};
  for (const auto& [name, value] : object.items())
    if (is_loss(name))
      if (const auto text = text_of(value)) UNBROKEN_DO(put(series, *step, name, *text));
  return Done{};
}

std::string MetricsLines::names() const {
  return fmt::format("{}", fmt::join(names_seen_, ", "));
}

}  // namespace unbroken
