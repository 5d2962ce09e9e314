#include "drill/series.h"

#include <fmt/format.h>

#include "base/digest.h"
#include "base/text.h"

namespace unbroken {

namespace {

constexpr std::size_t kTextMax = 64;  // longer ones are compared by digest

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

}  // namespace

std::optional<std::uint64_t> step_of_text(std::string_view text) {
  text = trimmed(text);
  const std::size_t dot = text.find('.');
  if (dot != std::string_view::npos) {
    if (text.find_first_not_of('0', dot + 1) != std::string_view::npos) return std::nullopt;
    text = text.substr(0, dot);
  }
  if (text.empty()) return std::nullopt;
  auto step = parse_u64(trim_zeros(text), 999'999'999'999'999'999);
  if (!step.ok()) return std::nullopt;
  return step.value();
}

Result<> put(Series& series, std::uint64_t step, std::string_view name, std::string_view text) {
  if (series.size() >= kSeriesStepsMax && !series.contains(step))
    return Error(Code::bad_argument,
                 fmt::format("the command tells of more than {} steps: drill a shorter run, or print fewer "
                             "of them",
                             kSeriesStepsMax));
  text = trimmed(text);
  series[step][std::string(name)] =
      text.size() <= kTextMax ? std::string(text) : xxh128(as_bytes(text)).hex();
  return Done{};
}

std::vector<TapStep> as_steps(const Series& series) {
  std::vector<TapStep> out;
  out.reserve(series.size());
  for (const auto& [step, metrics] : series) {
    out.emplace_back().step = step;
    out.back().metrics = metrics;
  }
  return out;
}

void PrintedRun::add(std::size_t life, const Series& series, bool was_killed) {
  for (const auto& [step, metrics] : series) {
    for (const auto& [name, text] : metrics) merged_[step][name] = text;
    whose_[step] = life;
  }
  if (!series.empty())
    lives_.push_back({series.begin()->first, series.rbegin()->first, was_killed});
  else if (was_killed && lives_.empty())
    was_killed_at_first_ = true;
  else if (was_killed)
    lives_.back().was_killed = true;  // whatever it was about to say follows what was said last
}

std::vector<std::uint64_t> PrintedRun::compare(const Series& straight, bool has_final,
                                               Comparison& comparison) const {
  const std::vector<TapStep> all = as_steps(merged_);
  for (const TapStep& step : all) comparison.add(whose_.at(step.step), {step});
  const auto is_lost = [&](std::uint64_t step) {
    if (was_killed_at_first_ && !lives_.empty() && step < lives_.front().first) return true;
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      if (!lives_[i].was_killed || step <= lives_[i].last) continue;
      if (i + 1 == lives_.size() ? has_final : step < lives_[i + 1].first) return true;
    }
    return false;
  };
  std::vector<std::uint64_t> out;
  for (const auto& [step, unused] : straight)
    if (!merged_.contains(step) && is_lost(step)) out.push_back(step);
  for (const std::uint64_t step : out) comparison.excuse(step);
  return out;
}

}  // namespace unbroken
