#include "planner/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "cadence/explain.h"
#include "cadence/formulas.h"

namespace unbroken {

namespace {

constexpr double kMttiMin_s = 1e-9;
constexpr double kPriceMax = 1e9;
constexpr std::size_t kTextMax = 256;

Error refuse(std::string_view flag, std::string why) {
  return Error(Code::bad_argument, fmt::format("--{}: {}", flag, why));
}

Result<double> parse_number(std::string_view text, std::string_view flag) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return refuse(flag, fmt::format("\"{}\" is not a number", text));
  return value;
}

/// "405B" and "405e9" are the same number of parameters.
Result<double> parse_count(std::string_view text, std::string_view flag) {
  double scale = 1;
  if (!text.empty()) {
    const char suffix = text.back();
    scale = suffix == 'K' ? 1e3 : suffix == 'M' ? 1e6 : suffix == 'B' ? 1e9 : suffix == 'T' ? 1e12 : 1;
    if (scale > 1) text.remove_suffix(1);
  }
  UNBROKEN_TRY(const double value, parse_number(text, flag));
  return value * scale;
}

enum class Bound { any, at_least_zero, above_zero };

Result<double> bounded(Result<double> parsed, std::string_view flag, std::string_view text, Bound bound) {
  if (!parsed.ok()) return parsed;
  const double value = parsed.value();
  if (std::isnan(value)) return refuse(flag, fmt::format("\"{}\" is not a number", text));
  if (value < 0 && bound != Bound::any) return refuse(flag, fmt::format("\"{}\" is negative", text));
  if (!(value > 0) && bound == Bound::above_zero)
    return refuse(flag, fmt::format("\"{}\" is not above zero", text));
  return value;
}

/// Reads settings by name into fields; the first thing that is wrong is kept.
class Reader {
 public:
  explicit Reader(const Settings& settings) : settings_(settings) {}

  bool has(std::string_view name) const { return settings_.has(name); }
  std::string_view text(std::string_view name) const { return settings_.values.find(name)->second; }
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  Result<> end() const {
    if (error_) return *error_;
    return Done{};
  }

  using Parse = Result<double> (*)(std::string_view, std::string_view);
  std::optional<double> read(std::string_view name, Parse parse, Bound bound) {
    if (!has(name)) return std::nullopt;
    const std::string dashed =
        parse == parse_number || parse == parse_count ? std::string(name) : fmt::format("--{}", name);
    auto value = bounded(parse(text(name), dashed), name, text(name), bound);
    if (!value.ok()) {
      fail(std::move(value).error());
      return std::nullopt;
    }
    return value.value();
  }
  /// Finite, >= 0.
  std::optional<double> duration(std::string_view name, Bound bound = Bound::at_least_zero) {
    auto value = read(name, parse_duration_s, bound);
    if (value && !std::isfinite(*value)) fail(refuse(name, "must be finite"));
    return value;
  }
  std::optional<double> number(std::string_view name, Bound bound) { return read(name, parse_number, bound); }
  std::optional<double> share(std::string_view name) {
    auto value = number(name, Bound::any);
    if (value && !(*value >= 0 && *value < 1))
      fail(refuse(name, fmt::format("{} is not a share from 0 up to, but without, 1", *value)));
    return value;
  }
  std::optional<std::uint64_t> whole(std::string_view name, std::uint64_t max) {
    if (!has(name)) return std::nullopt;
    const auto value = parse_u64(text(name), max);
    if (value.ok() && value.value() >= 1) return value.value();
    fail(refuse(name, fmt::format("\"{}\" is not a whole number from 1 to {}", text(name), max)));
    return std::nullopt;
  }

 private:
  const Settings& settings_;
  std::optional<Error> error_;
};

Result<TierInput> parse_tier(std::string_view text, double default_recovery_s) {
  const std::size_t colon = text.find(':');
  TierInput tier;
  tier.name = std::string(text.substr(0, colon));
  const std::string flag = fmt::format("tier {}", tier.name);
  if (tier.name.empty() || colon == std::string_view::npos)
    return refuse("tier", fmt::format("\"{}\" is not NAME:stall=D,persist=D,recovers=F,recovery=D", text));
  tier.recovery_s = default_recovery_s;
  bool has_stall = false;
  std::vector<std::string_view> seen;
  for (const std::string_view item : split(text.substr(colon + 1), ',')) {
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) return refuse(flag, fmt::format("\"{}\" is not KEY=VALUE", item));
    const std::string_view key = item.substr(0, equals), value = item.substr(equals + 1);
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      return refuse(flag, fmt::format("{} stands there twice", key));
    seen.push_back(key);
    const std::string named = fmt::format("--{} {}", flag, key);
    const auto seconds = [&]() -> Result<double> {
      auto parsed = bounded(parse_duration_s(value, named), flag, value, Bound::at_least_zero);
      if (parsed.ok() && !std::isfinite(parsed.value()))
        return refuse(flag, fmt::format("{} must be finite", key));
      return parsed;
    };
    if (key == "stall") {
      UNBROKEN_TRY(tier.stall_s, seconds());
      has_stall = true;
    } else if (key == "persist") {
      UNBROKEN_TRY(tier.persist_s, seconds());
    } else if (key == "recovery") {
      UNBROKEN_TRY(tier.recovery_s, seconds());
    } else if (key == "recovers") {
      UNBROKEN_TRY(tier.recovers, parse_number(value, fmt::format("{} recovers", flag)));
      if (!(tier.recovers > 0 && tier.recovers <= 1))
        return refuse(flag, fmt::format("recovers={} is not a share above 0 and at most 1", value));
    } else if (key == "price") {
      UNBROKEN_TRY(const double price, bounded(parse_number(value, flag), flag, value, Bound::at_least_zero));
      if (price > kPriceMax) return refuse(flag, fmt::format("price={} is out of range", value));
      tier.gb_month_usd = price;
    } else {
      return refuse(flag, fmt::format("\"{}\" is none of stall, persist, recovers, recovery, price", key));
    }
  }
  if (!has_stall || !(tier.stall_s > 0)) return refuse(flag, "needs a stall above zero, as stall=5s");
  return tier;
}

/// No value is so long; and an error would repeat it, as reports do the name of a tier.
Result<> check_texts(const Settings& settings) {
  if (settings.tiers.size() > kTiersMax)
    return refuse("tier", fmt::format("{} tiers are too many: at most {}", settings.tiers.size(), kTiersMax));
  for (const auto& [name, value] : settings.values)
    if (value.size() > kTextMax) return refuse(name, fmt::format("{} characters are too many", value.size()));
  for (const std::string& tier : settings.tiers)
    if (tier.size() > 2 * kTextMax)
      return refuse("tier", fmt::format("{} characters are too many", tier.size()));
  for (const std::string& tier : settings.tiers)
    if (const std::string shown = printable(tier); shown != tier)
      return refuse("tier", fmt::format("\"{}\" holds what cannot be printed", shown));
  return Done{};
}

/// Does the text of a tier, as after --tier, say this?
bool says(std::string_view tier, std::string_view key) {
  const std::size_t colon = tier.find(':');
  if (colon == std::string_view::npos) return false;
  for (const std::string_view item : split(tier.substr(colon + 1), ','))
    if (item.substr(0, item.find('=')) == key) return true;
  return false;
}

/// Flags that tiers say better are refused, not dropped.
Result<> check_beside_tiers(const Settings& settings) {
  if (settings.tiers.empty()) return Done{};
  for (const std::string_view flag : kSaidByTiers)
    if (settings.has(flag))
      return refuse(flag, "does not go with --tier: each tier says its own stall= and persist=");
  const bool is_said = std::all_of(settings.tiers.begin(), settings.tiers.end(),
                                   [](const std::string& tier) { return says(tier, "recovery"); });
  for (const char* flag : {"recovery", "detection", "replacement", "load"})
    if (is_said && settings.has(flag))
      return refuse(flag, "does not go with --tier where every tier says its own recovery");
  for (std::size_t i = 0; i + 1 < settings.tiers.size(); ++i)
    if (const std::string& tier = settings.tiers[i]; !says(tier, "recovers"))
      return refuse(fmt::format("tier {}", tier.substr(0, tier.find(':'))),
                    "needs recovers=, the share of all failures that it survives; only the last tier takes "
                    "the rest");
  return Done{};
}

/// Its fixed time between interruptions was measured at another size.
bool is_preset_outgrown(const Settings& settings, std::string_view preset) {
  if (preset.empty()) return false;
  const auto base = preset_settings(preset);
  if (!base.ok() || !base.value().has("mtti")) return false;
  const auto value = [](const Settings& from, std::string_view name) {
    const auto it = from.values.find(name);
    return it == from.values.end() ? std::string() : it->second;
  };
  return value(settings, "mtti") == value(base.value(), "mtti") &&
         value(settings, "gpus") != value(base.value(), "gpus");
}

void read_failures(Reader& in, JobInputs& job) {
  if (const auto mtti = in.read("mtti", parse_duration_s, Bound::above_zero)) {
    job.mtti_s = *mtti;
  } else if (const auto mtbf = in.read("node-mtbf", parse_duration_s, Bound::above_zero)) {
    job.mtti_s = *mtbf / job.nodes;
  } else if (const auto rate = in.number("failures-per-1000-node-days", Bound::at_least_zero)) {
    job.mtti_s = series_mtti_s(job.nodes, *rate);
  } else {
    job.is_prior_assumed = true;
    job.mtti_s = series_mtti_s(job.nodes, 3.8);
  }
  if (job.mtti_s >= kMttiMin_s) return;
  const char* flag = "gpus";
  for (const char* name : {"mtti", "node-mtbf", "failures-per-1000-node-days"})
    if (in.has(name)) flag = name;
  in.fail(refuse(flag, "is out of range: the job is interrupted more than once a nanosecond"));
}

void read_size_and_rate(Reader& in, JobInputs& job) {
  job.state_bytes = in.read("state", parse_bytes, Bound::above_zero);
  const auto params = in.read("params", parse_count, Bound::above_zero);
  const auto per_param = in.number("bytes-per-param", Bound::above_zero);
  if (params.has_value() != per_param.has_value())
    in.fail(params ? refuse("params", "needs --bytes-per-param, for example 16")
                   : refuse("bytes-per-param", "needs --params"));
  if (params && per_param) job.state_bytes = *params * *per_param;
  if (job.state_bytes && !(*job.state_bytes <= 1e24))
    in.fail(refuse(params ? "params" : "state", "is out of range: more than 10^24 bytes"));

  if (const auto writers = in.whole("writers", 1'000'000'000)) job.writers = static_cast<double>(*writers);
  const auto bandwidth = in.read("bandwidth", parse_rate, Bound::above_zero);
  const auto one = in.read("writer-bandwidth", parse_rate, Bound::above_zero);
  if (!bandwidth && !one) {
    if (job.writers) in.fail(refuse("writers", "needs --writer-bandwidth or --bandwidth"));
    return;
  }
  if (!job.state_bytes) in.fail(refuse(bandwidth ? "bandwidth" : "writer-bandwidth", "needs --state"));
  double rate = bandwidth.value_or(HUGE_VAL);
  if (one) rate = std::min(rate, *one * job.writers.value_or(job.nodes));
  job.write_bytes_per_s = rate;
  job.is_rate_given = true;
}

void read_times(Reader& in, JobInputs& job) {
  const auto stall = in.duration("stall");
  const auto persist = in.duration("persist");
  const bool is_sync = in.has("sync") && in.text("sync") != "false";
  if (is_sync && !stall && !job.is_rate_given) in.fail(refuse("sync", "needs --state and --bandwidth"));
  job.stall_s = stall.value_or(is_sync ? job.write_s() : 0);
  job.persist_s = persist.value_or(is_sync ? 0 : job.write_s());
  job.is_write_shared = job.is_rate_given && !is_sync && !persist;
  job.recovery_s = in.duration("recovery").value_or(0);
  for (const char* part : {"detection", "replacement", "load"})
    job.recovery_s += in.duration(part).value_or(0);
  job.slowdown = in.share("slowdown").value_or(0);
  if (const auto count = in.whole("in-flight", 1'000'000)) job.in_flight = static_cast<std::uint32_t>(*count);
  if (job.in_flight * job.slowdown >= 1)
    in.fail(refuse("slowdown", fmt::format("{} saves in flight leave no speed at all", job.in_flight)));
}

void read_rest(Reader& in, JobInputs& job) {
  job.notice_share = in.share("notice-share").value_or(0);
  job.notice_s = in.duration("notice", Bound::above_zero);
  job.step_s = in.duration("step").value_or(0);
  job.commit_s = in.duration("commit").value_or(0);
  if (const auto rpo = in.read("rpo", parse_duration_s, Bound::above_zero)) job.rpo_s = *rpo;
  job.interval_s = in.duration("interval", Bound::above_zero);
  job.days = in.number("days", Bound::above_zero).value_or(30);
  if (job.days > 36500) in.fail(refuse("days", "more than 100 years"));
  job.gpu_hour_usd = in.number("gpu-hour-usd", Bound::at_least_zero);
  job.gb_month_usd = in.number("gb-month-usd", Bound::at_least_zero);
  if (job.gpu_hour_usd > kPriceMax) in.fail(refuse("gpu-hour-usd", "is out of range: above 10^9"));
  if (job.gb_month_usd > kPriceMax) in.fail(refuse("gb-month-usd", "is out of range: above 10^9"));
  if (const auto keep = in.whole("keep-last", 1'000'000)) job.keep_last = static_cast<std::uint32_t>(*keep);
}

/// What the rest of the program relies on; a product of large inputs may have gone out of range.
Result<> check(const JobInputs& job) {
  if (job.tiers.empty() && !(job.stall_s > 0) && !(job.persist_s > 0))
    return refuse("stall",
                  "how long a save blocks the loop is needed, for example --stall 5s, or --persist, or "
                  "--sync with --state and --bandwidth");
  for (const TierInput& tier : job.tiers)
    if (!(tier.stall_s + tier.persist_s + tier.recovery_s <= 1e18))
      return refuse(fmt::format("tier {}", tier.name), "is out of range: more than 10^18 s");
  const std::string_view source = job.is_rate_given ? "bandwidth" : "";
  for (const auto& [flag, value] : {std::pair<std::string_view, double>("stall", job.stall_s),
                                    {"persist", job.persist_s},
                                    {"recovery", job.recovery_s},
                                    {"step", job.step_s},
                                    {"commit", job.commit_s},
                                    {"notice", job.notice_s.value_or(0)},
                                    {"interval", job.interval_s.value_or(0)}})
    if (!(value <= 1e18))
      return refuse(!source.empty() && value == job.write_s() ? source : flag,
                    "is out of range: more than 10^18 s");
  return Done{};
}

}  // namespace

Result<JobInputs> job_inputs(const Settings& settings, std::string preset) {
  UNBROKEN_DO(check_texts(settings));
  UNBROKEN_DO(check_beside_tiers(settings));
  Reader in(settings);
  JobInputs job;
  job.is_preset_outgrown = is_preset_outgrown(settings, preset);
  job.preset = std::move(preset);
  if (const auto gpus = in.whole("gpus", 1'000'000'000)) job.gpus = static_cast<double>(*gpus);
  if (const auto per_node = in.whole("gpus-per-node", 1'000'000))
    job.gpus_per_node = static_cast<double>(*per_node);
  job.nodes = std::ceil(job.gpus / job.gpus_per_node);
  read_failures(in, job);
  read_size_and_rate(in, job);
  read_times(in, job);
  read_rest(in, job);
  UNBROKEN_DO(in.end());
  for (const std::string& text : settings.tiers) {
    UNBROKEN_TRY(TierInput tier, parse_tier(text, job.recovery_s));
    for (const TierInput& other : job.tiers)
      if (other.name == tier.name) return refuse("tier", fmt::format("\"{}\" stands there twice", tier.name));
    job.tiers.push_back(std::move(tier));
  }
  if (!job.tiers.empty()) {
    job.last_recovers = std::exchange(job.tiers.back().recovers, 1);
    job.stall_s = job.tiers.front().stall_s;
    job.persist_s = job.tiers.front().persist_s;
    job.recovery_s = job.tiers.front().recovery_s;
  }
  UNBROKEN_DO(check(job));
  if (job.state_bytes && !job.write_bytes_per_s)
    job.write_bytes_per_s = *job.state_bytes / (job.persist_s > 0 ? job.persist_s : job.stall_s);
  return job;
}

double JobInputs::notice_cost_s() const {
  const auto safest =
      std::find_if(tiers.begin(), tiers.end(), [](const TierInput& tier) { return tier.recovers >= 1; });
  if (safest == tiers.end()) return unbroken::notice_needs_s(0, stall_s, persist_s, commit_s);
  return unbroken::notice_needs_s(0, safest->stall_s, safest->persist_s, commit_s);
}

Json to_json(const JobInputs& job) {
  const auto maybe = [](const std::optional<double>& value) { return value ? json_number(*value) : Json(); };
  return {{"gpus", static_cast<std::uint64_t>(job.gpus)},
          {"nodes", static_cast<std::uint64_t>(job.nodes)},
          {"mtti_s", json_number(job.mtti_s)},
          {"stall_s", job.stall_s},
          {"persist_s", job.persist_s},
          {"recovery_s", job.recovery_s},
          {"slowdown", job.slowdown},
          {"in_flight", job.in_flight},
          {"state_bytes", maybe(job.state_bytes)},
          {"write_bytes_per_s", maybe(job.write_bytes_per_s)}};
}

}  // namespace unbroken
