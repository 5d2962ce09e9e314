#include "cadence/formulas.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

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

/// An up-time, save by save: what there is of each thing before a failure, on average.
class UpTime {
 public:
  struct Sums {
    double work_s = 0, stall_s = 0;
    double snapped_s = 0;  ///< work in completed snapshots
    void add(const Sums& more, double times) {
      work_s += times * more.work_s;
      stall_s += times * more.stall_s;
      snapped_s += times * more.snapped_s;
    }
  };

  UpTime(double interval_s, const JobTimes& job) : job_(job), interval_s_(interval_s) {
    // Where some find no room the saves come in rounds, of as many as may persist.
    std::vector<double> periods_s(std::clamp<std::size_t>(job.in_flight, 1, kRoundMax), 0);
    std::size_t alike = 0;  // rounds in a row
    for (std::size_t saves = 0; saves < kSavesMax; saves += periods_s.size()) {
      const double begun_s = now_s_;
      double change_s = 0;
      round_ = {}, rhythm_ = {};
      for (double& period_s : periods_s) {
        const double last_s = std::exchange(period_s, save());
        change_s = std::max(change_s, std::abs(period_s - last_s));
        rhythm_.longest_s = std::max(rhythm_.longest_s, period_s);
      }
      sums_.add(round_, 1);
      rhythm_.period_s = (now_s_ - begun_s) / static_cast<double>(periods_s.size());
      rhythm_.interval_s /= static_cast<double>(periods_s.size());
      alike = change_s <= kAlike * rhythm_.period_s ? alike + 1 : 0;
      if (alike > 0 && alike * periods_s.size() >= ends_s_.size()) break;
    }
    const double round_s = rhythm_.period_s * static_cast<double>(periods_s.size());
    sums_.add(round_, 1 / std::expm1(round_s / job.mtti_s));  // q + q^2 + ..., q = e^(-round/M)
  }

  const Sums& sums() const { return sums_; }
  const Rhythm& rhythm() const { return rhythm_; }

 private:
  static constexpr std::size_t kSavesMax = 10'000, kRoundMax = 1000;
  static constexpr double kAlike = 1e-12, kRounding = 1e-7;  // of a period

  /// Of the up-time, between these two moments of it.
  double within(double from_s, double to_s) const {
    const double m = job_.mtti_s;
    return -m * std::exp(-from_s / m) * std::expm1((from_s - to_s) / m);
  }

  /// The work before it, the stall; how long both took.
  double save() {
    const double begun_s = now_s_;
    double worked_s = 0;
    do work(interval_s_), worked_s += interval_s_;
    while (is_full());
    round_.stall_s += within(now_s_, now_s_ + job_.stall_s);
    now_s_ += job_.stall_s;
    round_.snapped_s += worked_s * std::exp(-now_s_ / job_.mtti_s);
    rhythm_.interval_s += worked_s;
    if (job_.slowdown > 0 || job_.in_flight > 0) ends_s_.push_back(now_s_ + job_.persist_s);
    return now_s_ - begun_s;
  }

  /// Would too many persist after a save that begins now?
  bool is_full() const {
    if (job_.in_flight == 0 || ends_s_.size() < job_.in_flight) return false;
    const double late_s = now_s_ + job_.stall_s + kRounding * (interval_s_ + job_.stall_s);
    return ends_s_[ends_s_.size() - job_.in_flight] > late_s;
  }

  /// At full speed but for the writes behind it.
  void work(double left_s) {
    while (left_s > 0) {
      while (!ends_s_.empty() && ends_s_.front() <= now_s_) ends_s_.pop_front();
      const double speed = std::max(1 - job_.slowdown * static_cast<double>(ends_s_.size()), 0.0);
      double takes_s = left_s / speed;
      const bool is_cut = !ends_s_.empty() && ends_s_.front() - now_s_ < takes_s;
      if (is_cut) takes_s = ends_s_.front() - now_s_;
      round_.work_s += speed * within(now_s_, now_s_ + takes_s);
      now_s_ += takes_s;
      left_s = is_cut ? left_s - speed * takes_s : 0;
    }
  }

  const JobTimes& job_;
  double interval_s_;
  double now_s_ = 0;
  std::deque<double> ends_s_;  ///< of writes on their way
  Sums sums_, round_;
  Rhythm rhythm_;
};

Cycle cycle_of(double interval_s, const JobTimes& job) {
  const double m = job.mtti_s;
  const UpTime up(interval_s, job);
  const auto cycle = [&](double first_s) {
    return m * (1 - std::expm1(-first_s / m) * std::exp(job.recovery_s / m));
  };
  const double g = job.notice_share;
  const double length = (1 - g) * cycle(job.recovery_s) + g * cycle(job.recovery_s + job.notice_cost_s);
  const UpTime::Sums& s = up.sums();
  return {length, m, s.work_s, s.stall_s, s.snapped_s, s.snapped_s * std::exp(-job.persist_s / m)};
}

}  // namespace

double exact_interval_s(const JobTimes& job) {
  constexpr double kMost = 100;
  const double m = job.mtti_s, g = job.notice_share, d = job.cost_s() / m;
  const double more = g > 0 ? std::min(g / (1 - g) * std::exp(job.persist_s / m) * std::expm1(d), kMost) : 0;
  return m * std::min(more + exact_interval_s(more + d, 1), kMost);
}

Rhythm rhythm_of(double interval_s, const JobTimes& job) {
  return UpTime(interval_s, job).rhythm();
}

double efficiency(double interval_s, const JobTimes& job) {
  if (!std::isfinite(job.mtti_s)) {
    const Rhythm r = rhythm_of(interval_s, job);
    return r.interval_s / r.period_s;
  }
  const Cycle c = cycle_of(interval_s, job);
  const double kept = (1 - job.notice_share) * c.durable_s + job.notice_share * c.work_s;
  return std::isfinite(c.length_s) ? kept / c.length_s : 0;
}

Waste waste_of(double interval_s, const JobTimes& job) {
  Waste out;
  if (!std::isfinite(job.mtti_s)) {
    const Rhythm r = rhythm_of(interval_s, job);
    out.stall = job.stall_s / r.period_s;
    out.slowdown = std::max(r.period_s - r.interval_s - job.stall_s, 0.0) / r.period_s;
    return out;
  }
  const Cycle c = cycle_of(interval_s, job);
  if (!std::isfinite(c.length_s)) {
    out.recovery = 1;
    return out;
  }
  const auto share = [&](double seconds) { return std::max(seconds, 0.0) / c.length_s; };
  out.recovery = share(c.length_s - c.up_s);
  out.stall = job.slowdown * job.persist_s > 0 ? share(c.stall_s) : share(c.up_s - c.work_s);
  out.slowdown = job.slowdown * job.persist_s > 0 ? share(c.up_s - c.work_s - c.stall_s) : 0;
  out.lost_work = (1 - job.notice_share) * share(c.work_s - c.snapped_s);
  out.persist_lag = (1 - job.notice_share) * share(c.snapped_s - c.durable_s);
  return out;
}

double work_in_s(double period_s, const JobTimes& job) {
  const double stretch_s = std::max(period_s - job.stall_s, 0.0);
  if (!(job.slowdown > 0) || !(stretch_s > 0)) return stretch_s;
  const double whole = std::floor(job.persist_s / period_s);  // writes behind all of the stretch
  const double rest_s = std::min(job.persist_s - whole * period_s, stretch_s);
  return std::max(stretch_s - job.slowdown * (whole * stretch_s + rest_s), 0.0);
}

double floor_interval_s(const FloorInputs& in) {
  return work_in_s(std::max(in.persist_s / in.in_flight, in.write_s),
                   {.stall_s = in.stall_s, .persist_s = in.persist_s, .slowdown = in.slowdown});
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
