#pragma once
// A job in numbers, checked: what the planner and the simulator work on.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cadence/formulas.h"
#include "planner/settings.h"

namespace unbroken {

/// Times in seconds, sizes in bytes.
struct TierInput {
  std::string name;
  double stall_s = 0;
  double persist_s = 0;
  double recovers = 1;  ///< share of all failures that this tier can recover; 1 for the last
  double recovery_s = 0;
  std::optional<double> gb_month_usd = {};
};

struct JobInputs {
  std::string preset;  ///< empty: none
  double gpus = 8;
  double gpus_per_node = 8;
  double nodes = 1;
  double mtti_s = 0;  ///< infinite: no failures
  bool is_prior_assumed = false;
  bool is_preset_outgrown = false;  ///< the mtti is a preset's, the size is not
  double stall_s = 0;
  double persist_s = 0;
  double recovery_s = 0;
  double slowdown = 0;
  std::uint32_t in_flight = 1;
  std::optional<double> state_bytes = {};
  /// The rate of one write: from bandwidths, or what the stated times come to.
  std::optional<double> write_bytes_per_s = {};
  bool is_rate_given = false;    ///< write_bytes_per_s bounds the interval from below
  bool is_write_shared = false;  ///< the persist lag is that write: concurrent saves share the rate
  std::optional<double> writers = {};
  std::vector<TierInput> tiers;  ///< empty, or at least one; cheapest first
  double last_recovers = 1;      ///< what was said of the last one, which takes the rest
  double notice_share = 0;
  std::optional<double> notice_s = {};
  double step_s = 0;
  double commit_s = 0;
  double rpo_s = std::numeric_limits<double>::infinity();
  std::optional<double> interval_s = {};
  double days = 30;
  std::optional<double> gpu_hour_usd = {};
  std::optional<double> gb_month_usd = {};
  std::uint32_t keep_last = 3;

  /// What an emergency save takes: with tiers one of the safest that any failure needs, as nobody knows yet
  /// what will be lost.
  double notice_cost_s() const;
  /// And from the notice on, in which a step is made first.
  double notice_needs_s() const { return step_s + notice_cost_s(); }
  /// One write at the given rate; 0 where none was given.
  double write_s() const { return is_rate_given && state_bytes ? *state_bytes / *write_bytes_per_s : 0; }
};

/// Errors: bad_argument naming the flag: a value without its unit, negative, zero where that means nothing,
/// not a number, out of range, or something that is needed and not given.
Result<JobInputs> job_inputs(const Settings& settings, std::string preset = {});

/// The `inputs` object of `plan --json` and `simulate --json`.
Json to_json(const JobInputs& job);

}  // namespace unbroken
