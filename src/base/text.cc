#include "base/text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace unbroken {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string_view::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

std::string_view trim_zeros(std::string_view digits) {
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

Result<std::uint64_t> parse_u64(std::string_view text, std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  const bool is_padded = text.size() > 1 && text.front() == '0';
  if (!is_whole || is_padded || value > max)
    return Error(Code::bad_argument, fmt::format("\"{}\" is not a whole number from 0 to {}", text, max));
  return value;
}

namespace {

struct Unit {
  std::string_view name;
  double scale;
};

Result<double> parse_with_unit(std::string_view text, std::string_view flag, const Unit* units,
                               std::size_t count, std::string_view example) {
  const auto bad = [&](std::string_view why) {
    return Error(Code::bad_argument, fmt::format("{}: \"{}\" {}, for example {}", flag, text, why, example));
  };
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return bad("is not a number with a unit");
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty()) return bad("needs a unit");
  for (std::size_t i = 0; i < count; ++i) {
    if (units[i].name != unit) continue;
    const double scaled = value * units[i].scale;
    if (!std::isfinite(scaled)) return bad("is out of range");
    return scaled;
  }
  return bad("has an unknown unit");
}

constexpr std::array<Unit, 10> kDurations{{{"ns", 1e-9},
                                           {"us", 1e-6},
                                           {"ms", 1e-3},
                                           {"s", 1},
                                           {"min", 60},
                                           {"h", 3600},
                                           {"d", 86400},
                                           {"w", 604800},
                                           {"y", 31536000},
                                           {"m", 60}}};
constexpr std::array<Unit, 11> kSizes{{{"B", 1},
                                       {"kB", 1e3},
                                       {"KB", 1e3},
                                       {"MB", 1e6},
                                       {"GB", 1e9},
                                       {"TB", 1e12},
                                       {"PB", 1e15},
                                       {"KiB", 1024.0},
                                       {"MiB", 1048576.0},
                                       {"GiB", 1073741824.0},
                                       {"TiB", 1099511627776.0}}};

}  // namespace

Result<double> parse_duration_s(std::string_view text, std::string_view flag) {
  if (text == "inf") return HUGE_VAL;
  return parse_with_unit(text, flag, kDurations.data(), kDurations.size(), "90s, 10min or 12h");
}

Result<double> parse_bytes(std::string_view text, std::string_view flag) {
  return parse_with_unit(text, flag, kSizes.data(), kSizes.size(), "500GB or 64MiB");
}

Result<double> parse_rate(std::string_view text, std::string_view flag) {
  if (!text.ends_with("/s"))
    return Error(Code::bad_argument,
                 fmt::format("{}: \"{}\" needs a unit per second, for example 2GB/s", flag, text));
  return parse_with_unit(text.substr(0, text.size() - 2), flag, kSizes.data(), kSizes.size(), "2GB/s");
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array<std::string_view, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_duration(double seconds) {
  constexpr double kDaysMax = 1e6;  // above, nobody counts the hours
  if (!std::isfinite(seconds)) return "inf";
  if (seconds < 0.01) return fmt::format("{:.2g}ms", seconds * 1e3);  // two digits, however little
  if (seconds < 1) return fmt::format("{:.0f}ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f}s", seconds);
  if (seconds > kDaysMax * 86400) return fmt::format("{:.3g}d", seconds / 86400);
  static constexpr std::array<std::pair<std::uint64_t, char>, 4> kUnits{
      {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}}};
  auto rest = static_cast<std::uint64_t>(std::llround(seconds));
  std::string out;
  int shown = 0;
  for (const auto& [scale, unit] : kUnits) {
    if (rest >= scale || shown == 1) {
      if (shown == 1) out += ' ';
      out += fmt::format("{}{}", rest / scale, unit);
      rest %= scale;
      if (++shown == 2) break;
    }
  }
  return out;
}

std::string format_time(std::int64_t unix_ms) {
  const std::int64_t seconds = unix_ms >= 0 ? unix_ms / 1000 : (unix_ms - 999) / 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(seconds)),
                     unix_ms - seconds * 1000);
}

bool glob_matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) && pattern[p] != '*') {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++, mark = n;
    } else if (star != std::string_view::npos) {
      p = star + 1, n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace unbroken
