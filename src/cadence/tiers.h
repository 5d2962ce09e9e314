#pragma once
// Several tiers of checkpoints in one job: a cheap one often, a safer one more rarely. A failure is of the
// kind of the cheapest tier that survives it; it goes back to that tier's newest checkpoint. A save of one
// tier also serves every cheaper one. All times are in seconds. An emergency save, of an interruption that
// comes with a notice, is one of the safest tier: nobody knows yet what will be lost; the turns begin anew
// after it.
#include <cstdint>
#include <span>
#include <vector>

#include "cadence/formulas.h"

namespace unbroken {

/// Ordered from cheapest to safest.
struct TierTimes {
  double stall_s = 0;
  double persist_s = 0;
  double recovery_s = 0;
  /// Share of all failures of this kind: those that this tier survives and no cheaper one does. They sum
  /// to 1.
  double share = 0;
  /// Time that the training loses to one save while it persists: slowdown x persist. Of a save of several
  /// tiers the safest one slows it.
  double slowdown_s = 0;
  double cost_s() const { return stall_s + slowdown_s; }
};

struct TierInterval {
  double interval_s = 0;    ///< F7: sqrt(2 stall mtti / share), from begin to begin
  std::uint64_t every = 1;  ///< of the saves, this many apart; 1 for the cheapest tier in use
  bool is_used = true;      ///< false: not worth it, its failures go to the next tier
};

/// F7: each tier by itself, sqrt(2 d_i M / f_i), then a tier that would save no more often than the next
/// safer one is dropped and its share goes there. `every` is rounded to whole multiples of the tier below.
/// Domain: shares >= 0 summing to 1, mtti > 0 and finite, at least one tier.
/// Source: the sum-of-square-roots first-order form; L1 is dropped when T1 >= T2.
std::vector<TierInterval> tier_intervals(std::span<const TierTimes> tiers, double mtti_s);

/// What the formulas below are asked about: `tiers` and `plan` alike long.
struct TierJob {
  std::span<const TierTimes> tiers;
  std::span<const TierInterval> plan;
  double interval_s = 0;  ///< tau of every save, whatever its tier; > 0
  double mtti_s = 0;
  double notice_share = 0;  ///< of the interruptions, of any kind, with a window in which a save fits; [0, 1)
  double notice_cost_s = 0;  ///< from such a notice until the emergency save is committed
};

/// First order: 1 - the sum of stalls, of lost work and of recoveries. A save of a safer tier replaces the
/// cheaper one that was due, whose stall is not paid.
double tier_efficiency_first_order(const TierJob& job);

/// Exact for exponential failures and persist 0, by renewal over the nested blocks (a block of a tier is what
/// lies between two of its checkpoints, tried again after each failure of its kind); persist enters as
/// e^(-sum f_i P_i / M), and so does the turn that a tier misses because a failure of a cheaper tier's kind
/// ended its write; each is less where an emergency save makes good for it. What writes slow is spread evenly
/// over the intervals, but for that after a recovery nothing is written; none slows while a save blocks.
double tier_efficiency(const TierJob& job);

/// From one save to the next, on average.
double tier_period_s(const TierJob& job);

/// Work from one save of tier `i`, which must be in use, to the next, with all stalls between, what writes
/// slow, and the greatest stall that may end it: what a failure of its kind loses at most, but for the
/// persist time.
double longest_block_s(const TierJob& job, std::size_t i);

/// By the same renewal; with `tier_efficiency` the parts sum to 1. A stall counts as one even where its save
/// came to nothing.
Waste tier_waste(const TierJob& job);

}  // namespace unbroken
