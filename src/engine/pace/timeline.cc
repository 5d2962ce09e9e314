#include "engine/pace/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>

#include "base/json.h"

namespace unbroken {

namespace {

/// Some 100,000 saves; a longer file is read up to here.
constexpr std::uint64_t kBytesRead = std::uint64_t{32} << 20;

std::optional<SavedTimes> read_line(const std::string& line) {
  const auto value = parse_json(line);
  if (!value.ok() || !value.value().is_object()) return std::nullopt;
  Fields f(value.value(), "timeline");
  const auto seconds = [&](const char* key) {
    const auto number = number_from_json(f.any(key));
    const bool is_fine = number.ok() && number.value() >= 0 && number.value() < 1e12;
    if (!is_fine) f.fail(fmt::format("\"{}\" is no duration", key));
    return is_fine ? number.value() : 0;
  };
  SavedTimes out;
  out.save = {f.u64("step"), f.u32("attempt"), f.u32("try")};
  out.open_slot = f.u64("open");
  out.at_unix_ms = static_cast<std::int64_t>(f.u64("at", std::numeric_limits<std::int64_t>::max() / 1000));
  out.wait_s = seconds("wait_s");
  out.staged_s = seconds("staged_s");
  out.durable_s = seconds("durable_s");
  out.verified_s = seconds("verified_s");
  out.bytes = f.u64("bytes");
  out.later_bytes = f.u64("later_bytes");
  if (f.has("cpu_s")) out.cpu_s = seconds("cpu_s");
  if (!f.end().ok()) return std::nullopt;
  return out;
}

}  // namespace

std::string timeline_key(std::uint32_t attempt) {
  return fmt::format("metrics/a{:04}.saves", attempt);
}

std::string timeline_line(const SavedTimes& times) {
  const Json line{{"step", times.save.step},
                  {"attempt", times.save.attempt},
                  {"try", times.save.try_index},
                  {"open", times.open_slot},
                  {"at", times.at_unix_ms},
                  {"wait_s", json_number(times.wait_s)},
                  {"staged_s", json_number(times.staged_s)},
                  {"durable_s", json_number(times.durable_s)},
                  {"verified_s", json_number(times.verified_s)},
                  {"bytes", times.bytes},
                  {"later_bytes", times.later_bytes},
                  {"cpu_s", json_number(times.cpu_s)}};
  return line.dump() + "\n";
}

std::vector<SavedTimes> read_timeline(const Seams& seams, std::uint32_t attempt, std::uint64_t open_slot,
                                      const Deadline& by) {
  std::vector<SavedTimes> out;
  const auto reader = seams.store.open_reader(timeline_key(attempt), by);
  if (!reader.ok()) return out;
  std::string text(std::min(reader.value()->bytes(), kBytesRead), '\0');
  if (!reader.value()->read(0, std::as_writable_bytes(std::span(text))).ok()) return out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto times = read_line(line);
    if (times && times->save.attempt == attempt && times->open_slot == open_slot) out.push_back(*times);
  }
  return out;
}

}  // namespace unbroken
