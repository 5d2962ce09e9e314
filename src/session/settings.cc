#include "session/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "os/machine/cpu_meter.h"
#include "os/memory/memory_left.h"
#include "restore/choose.h"
#include "session/environment.h"

namespace unbroken {

namespace {

/// So that COMMIT has room for it.
constexpr std::size_t kBestNameBytesMax = 128;

/// Errors: bad_argument, naming the option.
Result<> read_duration(std::string_view name, const std::string& text, double& out) {
  if (text.empty()) return Done{};
  UNBROKEN_TRY(out, parse_duration_s(text, name));
  return Done{};
}

Result<PaceOptions> pace_options(const Process& process, const RunOptions& options) {
  PaceOptions out;
  UNBROKEN_TRY(out.schedule, Schedule::parse(options.every));
  const bool is_automatic = out.schedule.kind() == Schedule::Kind::automatic;
  for (const auto& [name, text] : {std::pair("rpo", &options.rpo), std::pair("every_min", &options.every_min),
                                   std::pair("every_max", &options.every_max)})
    if (!text->empty() && !is_automatic)
      return Error(Code::bad_argument,
                   fmt::format("{}: belongs to every=\"auto\", and every is \"{}\"", name, options.every));
  const auto told = process.env("UNBROKEN_MTTI");
  const bool is_told = told && !told->empty();
  double mtti_s = 0;
  UNBROKEN_DO(read_duration(is_told ? "UNBROKEN_MTTI" : "mtti", is_told ? *told : options.mtti, mtti_s));
  if (is_told || !options.mtti.empty()) out.cadence.mtti_s = mtti_s;
  UNBROKEN_DO(read_duration("rpo", options.rpo, out.cadence.rpo_s));
  UNBROKEN_DO(read_duration("every_min", options.every_min, out.cadence.every_min_s));
  UNBROKEN_DO(read_duration("every_max", options.every_max, out.cadence.every_max_s));
  UNBROKEN_DO(Cadence::create(out.cadence));  // what contradicts itself is refused before anything is opened
  return out;
}

Result<Duration> busy_wait_of(const RunOptions& options) {
  if (options.busy != "skip" && options.busy != "wait")
    return Error(Code::bad_argument, fmt::format("busy: \"{}\" is neither skip nor wait", options.busy));
  if (options.busy == "skip" && !options.max_wait.empty())
    return Error(Code::bad_argument, "max_wait: belongs to busy=\"wait\"");
  if (options.busy == "skip") return Duration::zero();
  double wait_s = std::chrono::duration<double>(kCallLimit).count();
  UNBROKEN_DO(read_duration("max_wait", options.max_wait, wait_s));
  const std::chrono::duration<double> wait(
      std::min(wait_s, std::chrono::duration<double>(kCallLimit).count()));
  return std::chrono::duration_cast<Duration>(wait);
}

Result<ArenaLimits> arena_limits_of(const RunOptions& options) {
  ArenaLimits out{.left = [] { return memory_left(); }};
  if (options.arena.empty()) return out;
  UNBROKEN_TRY(const double bytes, parse_bytes(options.arena, "arena"));
  if (bytes < 1) return Error(Code::bad_argument, fmt::format("arena: \"{}\" holds nothing", options.arena));
  out.bytes_max = static_cast<std::uint64_t>(std::min(bytes, 9e18));
  return out;
}

Result<std::uint64_t> write_rate_of(const RunOptions& options) {
  if (options.max_bandwidth.empty()) return std::uint64_t{0};
  UNBROKEN_TRY(const double rate, parse_rate(options.max_bandwidth, "max_bandwidth"));
  if (rate < 1) return Error(Code::bad_argument, "max_bandwidth: at least one byte a second");
  return static_cast<std::uint64_t>(std::min(rate, 1e18));
}

Result<std::optional<BestRule>> best_rule_of(const RunOptions& options) {
  if (!options.keep_best) return std::optional<BestRule>{};
  const auto& [metric, mode] = *options.keep_best;
  if (metric.empty() || metric.size() > kBestNameBytesMax)
    return Error(Code::bad_argument,
                 fmt::format("keep_best: the name of a metric has 1 to {} bytes", kBestNameBytesMax));
  if (mode != "min" && mode != "max")
    return Error(Code::bad_argument, fmt::format("keep_best: \"{}\" is neither min nor max", mode));
  return std::optional(BestRule{metric, mode == "min"});
}

Result<Policy> policy_of(const RunOptions& options) {
  if (options.keep_last == 0) return Error(Code::bad_argument, "keep_last: at least 1 checkpoint");
  UNBROKEN_TRY(std::optional<BestRule> best, best_rule_of(options));
  return Policy{.keep_last = options.keep_last,
                .verified_min = std::min(2U, options.keep_last),
                .keep_every = options.keep_every,
                .best = std::move(best)};
}

/// Whoever names a checkpoint knows of an earlier life.
bool has_sign(const RunOptions& options) {
  return options.resume != "newest";
}

}  // namespace

Result<EngineOptions> engine_options(const Process& process, const RunOptions& options) {
  EngineOptions out;
  UNBROKEN_TRY(out.pace, pace_options(process, options));
  UNBROKEN_TRY(out.open.policy, policy_of(options));
  UNBROKEN_TRY(out.open.resume, parse_at(options.resume));
  const auto& best = out.open.policy.best;
  if (best && best->metric == out.open.resume.name) out.open.resume.rule = best;
  out.open.is_fresh_allowed = options.is_fresh_allowed;
  out.open.is_takeover = options.is_takeover || process.env("UNBROKEN_TAKEOVER") == "1";
  out.open.has_sign = has_sign(options);
  UNBROKEN_TRY(out.busy_wait, busy_wait_of(options));
  UNBROKEN_TRY(out.arena, arena_limits_of(options));
  UNBROKEN_TRY(out.writes.bytes_per_s, write_rate_of(options));
  out.raises_on_save_error = options.raises_on_save_error;
  UNBROKEN_TRY(out.tap, tap_of(process));
  return out;
}

void add_runtime(EngineOptions& engine, Runtime& runtime) {
  engine.open.probe = [&runtime](const Deadline& by) { return runtime.probe(by); };
  engine.open.sweep = [&runtime](const Deadline& by) { runtime.sweep(by); };
  engine.meter = make_cpu_meter;
  auto gives_way = give_way(io_class(runtime.seams().process));
  if (gives_way.ok()) {
    engine.writes.gives_way = std::move(gives_way).value();
  } else {
    runtime.note(
        fmt::format("UNBROKEN_IO_CLASS cannot be had here ({}): checkpoints are written as all else is",
                    gives_way.error().what()));
  }
  engine.provenance.merge(provenance_of(runtime));
}

Result<> check_tag_name(std::string_view tag) {
  if (is_tag_name(tag)) return Done{};
  return Error(Code::bad_argument, fmt::format("tag \"{}\": 1 to 64 letters, digits, and any of . _ -", tag));
}

RuntimeOptions runtime_options(const RunOptions& options) {
  return {.purpose = RuntimeOptions::Purpose::train,
          .group = options.group,
          .is_fresh_allowed = options.is_fresh_allowed,
          .has_sign = has_sign(options)};
}

}  // namespace unbroken
