#pragma once
// The arithmetic of checkpoint intervals: values in, values out.
//
// Words, the same in every function:
//   stall      time for which one save blocks the loop (delta in the literature)
//   mtti       mean time to interruption of the whole job, M; exponential unless said otherwise
//   recovery   from a failure to the first new step: detection, replacement and load, R
//   interval   tau, work from the end of one stall to the begin of the next save
//   period     interval + stall
//   persist    from the snapshot (end of the stall) until the save can be resumed from, P
// All times are in seconds. Domain of all unless said otherwise: stall > 0, mtti > 0 and finite, others >= 0.
#include <cstdint>
#include <span>
#include <vector>

namespace unbroken {

/// The principal branch of Lambert's W: the w >= -1 with w e^w = x.
/// Domain: x >= -1/e (below it -1 is returned).   Source: Corless et al., On the Lambert W function, 1996.
double lambert_w0(double x);

/// F1: sqrt(2 stall mtti). First order: meant for stall << mtti.
/// Source: J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 1974.
double young_interval_s(double stall_s, double mtti_s);

/// F2: f = stall / (2 mtti); sqrt(2 stall mtti) (1 + sqrt(f)/3 + f/9) - stall, and mtti from stall >= 2 mtti
/// on. Other forms that go by this name, such as sqrt(2 d M + d^2) - d or sqrt(2 d (M + R)) - d, are not it.
/// Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval, FGCS 2006, eq. 37.
double daly_interval_s(double stall_s, double mtti_s);

/// F3: the maximum of `efficiency` over the interval, mtti (1 + W0(-exp(-(1 + stall/mtti)))). Depends on
/// neither recovery nor persist.   Source: d/dtau of F4 = 0.
double exact_interval_s(double stall_s, double mtti_s);

/// What `efficiency` takes.
struct JobTimes {
  double stall_s = 0;
  double mtti_s = 0;  ///< may be infinite: no failures
  double recovery_s = 0;
  double persist_s = 0;
  /// Fraction of the speed that is lost while a save persists; it costs slowdown x persist a save.
  double slowdown = 0;
  double notice_share = 0;   ///< of the interruptions, with a window in which the save fits; [0, 1)
  double notice_cost_s = 0;  ///< time from such a notice until the emergency save is committed
  /// What one save costs the loop: the stall and the slowdown of the time behind it.
  double cost_s() const { return stall_s + slowdown * persist_s; }
  /// By how much later than a whole number of periods a save is durable: the first stretch after a recovery
  /// has no write behind it, and is shorter by what one slows.
  double lag_s() const { return (1 - slowdown) * persist_s; }
};

/// F4 and F5: the share of all time that becomes work which is never done again,
/// tau e^(-(1-s)P/M) / (M e^(R/M) (e^(T/M) - 1)) with T = tau + cost. Exact for exponential failures, which
/// may also hit stalls and recoveries, with one save in flight; without a slowdown for any number of them, as
/// long as period >= persist / in flight. With notices an up-time that ends with one keeps all its work.
/// Domain: interval > 0.   Source: Daly 2006, the complete model; the factor because an up-time X leaves
/// floor((X - (1-s)P)/T) durable checkpoints, the mean of which is e^(-(1-s)P/M)/(e^(T/M) - 1).
double efficiency(double interval_s, const JobTimes& job);

/// Where the time goes; the parts and the efficiency sum to 1, none is negative.
struct Waste {
  double stall = 0;
  double lost_work = 0;  ///< done after the newest snapshot, and done again
  double recovery = 0;
  double persist_lag = 0;  ///< in snapshots that were not durable yet
  double slowdown = 0;
  double sum() const { return stall + lost_work + recovery + persist_lag + slowdown; }
};
Waste waste_of(double interval_s, const JobTimes& job);

/// F5: the shortest interval that the storage can follow, max(persist/in flight, write time) - stall, at
/// least 0. `write_s` is state bytes / bandwidth.   Domain: in_flight >= 1.
struct FloorInputs {
  double stall_s = 0;
  double persist_s = 0;
  double write_s = 0;
  std::uint32_t in_flight = 1;
};
double floor_interval_s(const FloorInputs& in);

/// F6: effective training time ratio, (1 - (u0 + dt/2)/mtti) / (1 + w/dt), clamped to [0, 1].
/// A form for small losses: outside of (u0 + dt/2)/mtti <= 0.2 it is not to be trusted.
/// Source: Kokolis et al., Revisiting reliability in large-scale machine learning research clusters, HPCA
/// 2025.
struct Ettr {
  double value = 0;
  bool is_in_domain = false;
};
struct EttrInputs {
  double interval_s = 0;  ///< dt > 0
  double stall_s = 0;     ///< w
  double recovery_s = 0;  ///< u0
  double mtti_s = 0;
};
Ettr ettr(const EttrInputs& in);

/// F8: interruptions that come with a notice long enough for a save lose no work, so the interval is that of
/// an mtti / (1 - share).   Domain: share in [0, 1).
double mtti_without_notice_s(double mtti_s, double notice_share);

/// F9: a save fits a notice when step_left + stall + write + commit <= 0.9 notice.
double notice_needs_s(double step_s, double stall_s, double write_s, double commit_s);
bool fits_notice(double needs_s, double notice_s);

/// F10: parts in series fail at the sum of their rates; 1000 node-days are 86.4e6 node-seconds. Infinite at
/// rate 0.
double series_mtti_s(double nodes, double failures_per_1000_node_days);
double failures_per_1000_node_days(double nodes, double mtti_s);

/// Mean and greatest age of the newest durable state: T/2 + P and T + P.
double mean_lost_s(double period_s, double persist_s);
double max_lost_s(double period_s, double persist_s);

}  // namespace unbroken
