#pragma once
// The arithmetic of checkpoint intervals: values in, values out.
//
// Words, the same in every function:
//   stall      time for which one save blocks the loop (delta in the literature)
//   mtti       mean time to interruption of the whole job, M; exponential unless said otherwise
//   recovery   from a failure to the first new step: detection, replacement and load, R
//   interval   tau, work from the end of one stall to the begin of the next save: as many seconds as it takes
//              at full speed
//   period     from one save to the next, T: interval + stall + what the writes behind slow
//   persist    from the snapshot (end of the stall) until the save can be resumed from, P
//   slowdown   share of the speed that each save takes while it persists, s: with n of them on their way a
//              second of the loop makes 1 - n s seconds of work, at least 0; a stall makes none
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
  double slowdown = 0;
  /// A save that falls due while so many persist is not taken: the next falls due an interval later. 0: any
  /// number may.
  std::uint32_t in_flight = 0;
  double notice_share = 0;   ///< of the interruptions, with a window in which the save fits; [0, 1)
  double notice_cost_s = 0;  ///< time from such a notice until the emergency save is committed
  /// What one save costs the loop: the stall and the slowdown of the time behind it, where that is all work.
  double cost_s() const { return stall_s + slowdown * persist_s; }
};

/// F4 and F5: the share of all time that becomes work which is never done again. Exact for exponential
/// failures, which may also hit stalls and recoveries, whatever the slowdown and however many are in flight.
/// Without a slowdown it is tau e^(-P/M) / (M e^(R/M) (e^(T/M) - 1)); with one the periods of an up-time are
/// not alike (its first has no write behind it), and are followed one by one until they are.
/// With notices an up-time that ends with one keeps all its work.
/// Domain: interval > 0.   Source: Daly 2006, the complete model; the factor because an up-time X leaves
/// floor((X - P)/T) durable checkpoints, the mean of which is e^(-P/M)/(e^(T/M) - 1).
double efficiency(double interval_s, const JobTimes& job);

/// F3 with notices of share g: the maximum of `efficiency`, mtti (c + W0(-exp(-(c + d/mtti)))), where d is
/// cost_s() in place of the stall and c = 1 + g/(1 - g) e^(P/M) (e^(d/M) - 1). To first order it is F8. At
/// most 100 mtti.   Source: d/dtau of (1 - g) F5 + g times the share that is work at all = 0.
double exact_interval_s(const JobTimes& job);

/// How saves follow each other long after a recovery; means, where they do so unevenly.
struct Rhythm {
  double interval_s = 0;  ///< more than was asked for, where some find no room
  double period_s = 0;
  double longest_s = 0;  ///< period
};
Rhythm rhythm_of(double interval_s, const JobTimes& job);

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

/// The interval of saves that are so far apart, all alike.
double work_in_s(double period_s, const JobTimes& job);

/// F5: the shortest interval that the storage can follow: the work that is done in a period of
/// max(persist/in flight, write time), which is (period - stall) (1 - in flight x slowdown) where persist/in
/// flight is the longer one; at least 0. `write_s` is state bytes / bandwidth.   Domain: in_flight >= 1.
struct FloorInputs {
  double stall_s = 0;
  double persist_s = 0;
  double write_s = 0;
  double slowdown = 0;  ///< of each save in flight
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
