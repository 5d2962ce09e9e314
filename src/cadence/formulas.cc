#include "cadence/formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace unbroken {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSecondsIn1000Days = 86.4e6;

/// 1 + W0(z) near the branch point -1/e, from p = sqrt(2 (1 + e z)).
/// Source: Corless et al. 1996, eq. 4.22.
double one_plus_w0(double p) {
  return p * (1 + p * (-1.0 / 3 + p * (11.0 / 72 + p * (-43.0 / 540 + p * (769.0 / 17280)))));
}

}  // namespace

double lambert_w0(double x) {
  const double branch = 1 + x * std::exp(1.0);
  if (!(branch > 0)) return -1;
  const double p = std::sqrt(2 * branch);
  if (p < 1e-3) return one_plus_w0(p) - 1;
  double w = x < 0.3 ? one_plus_w0(std::min(p, 1.0)) - 1 : std::log1p(x);
  if (x > 3) w = std::log(x) - std::log(std::log(x));
  for (int i = 0; i < 40; ++i) {  // Halley's method: three steps are usual
    const double e = std::exp(w);
    const double f = w * e - x;
    const double step = f / (e * (w + 1) - (w + 2) * f / (2 * w + 2));
    w -= step;
    if (std::abs(step) <= 1e-15 * (1 + std::abs(w))) break;
  }
  return w;
}

double young_interval_s(double stall_s, double mtti_s) {
  return std::sqrt(2 * stall_s * mtti_s);
}

double daly_interval_s(double stall_s, double mtti_s) {
  if (stall_s >= 2 * mtti_s) return mtti_s;
  const double f = stall_s / (2 * mtti_s);
  return std::sqrt(2 * stall_s * mtti_s) * (1 + std::sqrt(f) / 3 + f / 9) - stall_s;
}

double exact_interval_s(double stall_s, double mtti_s) {
  const double x = stall_s / mtti_s;
  // Close to the branch point W itself would be -1 + something small: take the small part directly.
  if (x < 1e-6) return mtti_s * one_plus_w0(std::sqrt(-2 * std::expm1(-x)));
  return mtti_s * (1 + lambert_w0(-std::exp(-(1 + x))));
}

namespace {

/// Means over one cycle: a recovery (repeated when it fails itself) and the up-time after it.
struct Cycle {
  double length_s;
  double up_s;    ///< mtti
  double work_s;  ///< done in the up-time, whether it is kept or not
  double stall_s;
  double snapped_s;  ///< of it, in completed snapshots
  double durable_s;  ///< of it, in snapshots that were durable before the failure
};

struct UpTime {
  double work_s, stall_s;
  double snapshots;  ///< completed
};

/// One stretch at full speed and its stall, then periods that begin with a write behind the training.
UpTime up_time_of(double interval_s, const JobTimes& job) {
  const double m = job.mtti_s, slowed_s = job.slowdown * job.persist_s;
  const auto within = [m](double from_s, double to_s) {  // of the up-time, between these two moments of it
    return -m * std::exp(-from_s / m) * std::expm1((from_s - to_s) / m);
  };
  const double first_s = interval_s + job.stall_s, stretch_s = interval_s + slowed_s;
  const double period_s = stretch_s + job.stall_s;
  UpTime later{within(0, interval_s), within(stretch_s, period_s), 1};
  if (slowed_s > 0) {
    const double written_s = std::min(job.persist_s, stretch_s);  // several writes: slowed all the time
    later.work_s = (1 - slowed_s / written_s) * within(0, written_s) + within(written_s, stretch_s);
  }
  const double times = std::exp(-first_s / m) / -std::expm1(-period_s / m);
  return {within(0, interval_s) + times * later.work_s, within(interval_s, first_s) + times * later.stall_s,
          times};
}

Cycle cycle_of(double interval_s, const JobTimes& job) {
  const double m = job.mtti_s;
  const double period = interval_s + job.cost_s();
  // In units of e^(T/M) - 1, so that neither tiny nor huge ratios lose digits.
  const double periods = 1 / std::expm1(period / m);
  const UpTime up = up_time_of(interval_s, job);
  const auto cycle = [&](double first_s) {
    return m * (1 - std::expm1(-first_s / m) * std::exp(job.recovery_s / m));
  };
  const double g = job.notice_share;
  const double length = (1 - g) * cycle(job.recovery_s) + g * cycle(job.recovery_s + job.notice_cost_s);
  return {length,
          m,
          up.work_s,
          up.stall_s,
          interval_s * up.snapshots,
          interval_s * periods * std::exp(-job.lag_s() / m)};
}

}  // namespace

double efficiency(double interval_s, const JobTimes& job) {
  if (!std::isfinite(job.mtti_s)) return interval_s / (interval_s + job.cost_s());
  const Cycle c = cycle_of(interval_s, job);
  const double kept = (1 - job.notice_share) * c.durable_s + job.notice_share * c.work_s;
  return std::isfinite(c.length_s) ? kept / c.length_s : 0;
}

Waste waste_of(double interval_s, const JobTimes& job) {
  Waste out;
  const double cost = job.cost_s();
  const double stall_share = cost > 0 ? job.stall_s / cost : 1;
  if (!std::isfinite(job.mtti_s)) {
    const double all = cost / (interval_s + cost);
    out.stall = all * stall_share;
    out.slowdown = all * (1 - stall_share);
    return out;
  }
  const Cycle c = cycle_of(interval_s, job);
  if (!std::isfinite(c.length_s)) {
    out.recovery = 1;
    return out;
  }
  const auto share = [&](double seconds) { return std::max(seconds, 0.0) / c.length_s; };
  out.recovery = share(c.length_s - c.up_s);
  out.stall = cost > job.stall_s ? share(c.stall_s) : share(c.up_s - c.work_s);
  out.slowdown = cost > job.stall_s ? share(c.up_s - c.work_s - c.stall_s) : 0;
  out.lost_work = (1 - job.notice_share) * share(c.work_s - c.snapped_s);
  out.persist_lag = (1 - job.notice_share) * share(c.snapped_s - c.durable_s);
  return out;
}

double floor_interval_s(const FloorInputs& in) {
  return std::max(std::max(in.persist_s / in.in_flight, in.write_s) - in.stall_s, 0.0);
}

Ettr ettr(const EttrInputs& in) {
  const double loss = (in.recovery_s + in.interval_s / 2) / in.mtti_s;
  const double value = (1 - loss) / (1 + in.stall_s / in.interval_s);
  return {std::clamp(value, 0.0, 1.0), loss <= 0.2};
}

double mtti_without_notice_s(double mtti_s, double notice_share) {
  return mtti_s / (1 - notice_share);
}

double notice_needs_s(double step_s, double stall_s, double write_s, double commit_s) {
  return step_s + stall_s + write_s + commit_s;
}

bool fits_notice(double needs_s, double notice_s) {
  return needs_s <= 0.9 * notice_s;
}

double series_mtti_s(double nodes, double failures_per_1000_node_days) {
  const double rate = nodes * failures_per_1000_node_days;
  return rate > 0 ? kSecondsIn1000Days / rate : kInfinity;
}

double failures_per_1000_node_days(double nodes, double mtti_s) {
  return std::isfinite(mtti_s) ? kSecondsIn1000Days / (nodes * mtti_s) : 0;
}

double mean_lost_s(double period_s, double persist_s) {
  return period_s / 2 + persist_s;
}

double max_lost_s(double period_s, double persist_s) {
  return period_s + persist_s;
}

}  // namespace unbroken
