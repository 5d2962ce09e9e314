#include "engine/start/crashes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/digest.h"
#include "base/text.h"
#include "engine/start/owner.h"

namespace unbroken {

namespace {

constexpr std::size_t kLivesMin = 2;
constexpr std::uint64_t kBytesRead = 65536;

std::map<std::string, int, std::less<>> signals_by_mark(std::string_view text) {
  std::map<std::string, int, std::less<>> out;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto signal = parse_u64(line.substr(space + 1), 64);
    if (signal.ok()) out[std::string(line.substr(0, space))] = static_cast<int>(signal.value());
  }
  return out;
}

}  // namespace

std::string crash_mark(const ProcessIdentity& p) {
  return xxh128(as_bytes(fmt::format("{}\n{}\n{}\n{}\n{}", p.host, p.boot_id, p.pid_namespace, p.pid,
                                     p.start_ticks)))
      .hex();
}

std::optional<Killer> find_killer(const Seams& seams, const History& history, const Deadline& by) {
  const auto& all = history.attempts();
  if (all.empty() || !all.back().open.resume) return std::nullopt;
  const auto is_in_vain = [&](const Attempt& a) {
    return a.open.resume == all.back().open.resume && a.commits == 0;
  };
  const auto last = std::find_if_not(all.rbegin(), all.rend(), is_in_vain);
  if (static_cast<std::size_t>(last - all.rbegin()) < kLivesMin) return std::nullopt;
  const auto text = seams.store.get(kCrashesKey, kBytesRead, by);
  if (!text.ok()) return std::nullopt;
  const auto signals = signals_by_mark(text.value());
  Killer out{*all.back().open.resume, 0, 0};
  for (auto attempt = all.rbegin(); attempt != last; ++attempt) {
    const auto line = signals.find(crash_mark(identity_of(attempt->open.owner)));
    if (line == signals.end()) break;
    if (out.lives++ == 0) out.signal = line->second;
  }
  return out.lives < kLivesMin ? std::nullopt : std::optional(out);
}

}  // namespace unbroken
