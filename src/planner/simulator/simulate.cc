#include "planner/simulator/simulate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <utility>

namespace unbroken {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// A write that ends this share of a period after a save fell due counts as ended: both times were rounded.
constexpr double kRounding = 1e-7;
constexpr std::uint64_t kSlowStream = 0x5107'5107'5107'5107;

/// A place to go back to.
struct Point {
  double work_s = 0;
  std::uint64_t saves = 0;  ///< counted from the start of the lineage: which tier is due next
};

/// One tier in use.
struct Tier {
  TierTimes times;
  std::uint64_t every = 1;
  double kind_below =
      0;         ///< kinds are drawn: at most this share of the failures is survived by cheaper tiers
  Point newest;  ///< durable
};

/// One save on its way to one tier.
struct Write {
  Point point;
  std::size_t tier;
  double done_s;      ///< where the time is fixed
  double left_bytes;  ///< where writes share a rate
  bool is_main;       ///< the safest tier of its save: it slows the training, and it is what is in flight
};

class Job {
 public:
  Job(const Simulation& simulation, std::uint64_t seed);
  SeedResult run();

 private:
  void live();
  bool is_slow();
  double mean_to_slow_s() const;
  void fail();
  void advance(double until_s);
  void save();
  void finish_writes();
  bool is_done_by(const Write& write, double at_s) const;
  std::size_t in_flight_by(double at_s, std::size_t tier) const;
  std::size_t tier_due() const;
  bool is_full() const;
  double stall_s(std::size_t tier) const;
  /// Of a save that finds no room: it is taken later, as every="auto" does it, or not at all, where the
  /// interval was asked for. One that a trace tells of is one that there was.
  bool is_waiting() const { return failure_.interval_s.has_value() || !is_given(); }
  double interval_s() const {
    return failure_.interval_s.value_or(is_given() ? sim_.saves.asked_s : sim_.saves.interval_s);
  }
  bool is_given() const { return sim_.saves.bound_by == BoundBy::given; }
  double recovery_s(std::size_t kind) const {
    return failure_.recovery_s.value_or(tiers_[kind].times.recovery_s);
  }
  double next_write_s() const;
  std::size_t in_flight() const;
  void end_write(const Write& write);
  std::size_t kind_of(const Failure& failure);
  void recover(std::size_t kind, double first_cost_s);
  bool is_over() const { return now_s_ >= horizon_s_; }

  const Simulation& sim_;
  SeededRandom random_;
  SeededRandom slow_random_;  ///< of its own, so that failures are the same with and without stragglers
  FailureSource source_;
  std::vector<Tier> tiers_;
  double horizon_s_;
  double rate_bytes_per_s_ = 0;  ///< shared by writes; 0: each takes its own time

  double now_s_ = 0;
  double work_s_ = 0;        ///< in the lineage that goes on
  std::uint64_t count_ = 0;  ///< of saves in this lineage
  double next_due_s_ = 0;    ///< in work
  bool is_first_ = false;    ///< the save that is due next
  std::deque<Write> writes_;
  double next_slow_s_ = kInfinity;  ///< when the next node becomes slow
  double slow_until_s_ = 0;
  Failure failure_;
  std::uint64_t stored_ = 0;
  SeedResult out_;
  Waste spent_;  ///< seconds
};

Job::Job(const Simulation& simulation, std::uint64_t seed)
    : sim_(simulation),
      random_(seed),
      slow_random_(seed ^ kSlowStream),
      source_(simulation.law, simulation.job.mtti_s, static_cast<std::uint32_t>(simulation.job.nodes),
              random_),
      horizon_s_(simulation.job.days * 86400) {
  double below = 0;
  for (const TierPlan& tier : simulation.saves.tiers) {
    if (tier.interval.is_used) tiers_.push_back({tier.times, tier.interval.every, below, {}});
    if (tier.interval.is_used) below = tier.recovers;
  }
  if (simulation.job.is_write_shared && tiers_.size() == 1)
    rate_bytes_per_s_ = *simulation.job.write_bytes_per_s;
  if (sim_.stragglers.per_1000_node_days > 0) next_slow_s_ = mean_to_slow_s() * slow_random_.exponential();
}

double Job::mean_to_slow_s() const {
  return 1000 * 86400 / (sim_.stragglers.per_1000_node_days * sim_.job.nodes);
}

/// Is a node slow now? Until slow_until_s_ then, else until next_slow_s_ none will be.
bool Job::is_slow() {
  for (; next_slow_s_ <= now_s_; next_slow_s_ += mean_to_slow_s() * slow_random_.exponential())
    slow_until_s_ = next_slow_s_ + sim_.stragglers.lasts_s;
  return now_s_ < slow_until_s_;
}

std::size_t Job::in_flight() const {
  return static_cast<std::size_t>(
      std::count_if(writes_.begin(), writes_.end(), [](const Write& w) { return w.is_main; }));
}

double Job::next_write_s() const {
  double first = kInfinity;
  for (const Write& write : writes_)
    first = std::min(first,
                     rate_bytes_per_s_ > 0
                         ? now_s_ + write.left_bytes * static_cast<double>(writes_.size()) / rate_bytes_per_s_
                         : write.done_s);
  return first;
}

void Job::end_write(const Write& write) {
  Point& newest = tiers_[write.tier].newest;
  if (write.point.work_s >= newest.work_s) newest = write.point;
  if (write.is_main) stored_ = std::min<std::uint64_t>(stored_ + 1, sim_.job.keep_last);
}

/// With what now shares the rate.
bool Job::is_done_by(const Write& write, double at_s) const {
  if (rate_bytes_per_s_ <= 0) return write.done_s <= at_s;
  const double each_s = (at_s - now_s_) / static_cast<double>(writes_.size());
  return write.left_bytes <= (each_s + 1e-6) * rate_bytes_per_s_;  // a microsecond of the rate is rounding
}

/// Writes of a tier that will still be on their way when the snapshot of the next one is taken. Each tier has
/// a path of its own.
std::size_t Job::in_flight_by(double at_s, std::size_t tier) const {
  const double late_s = at_s + kRounding * sim_.saves.period_s;
  return static_cast<std::size_t>(std::count_if(writes_.begin(), writes_.end(), [&](const Write& w) {
    return w.tier == tier && !is_done_by(w, late_s);
  }));
}

/// Would there be too many in flight after a save that begins now?
bool Job::is_full() const {
  const std::size_t top = tier_due();
  const double at_s = now_s_ + stall_s(top);
  for (std::size_t tier = 0; tier <= top; ++tier)
    if (in_flight_by(at_s, tier) >= sim_.job.in_flight) return true;
  return false;
}

/// The safest tier whose turn the next save is.
std::size_t Job::tier_due() const {
  std::size_t top = 0;
  while (top + 1 < tiers_.size() && (count_ + 1) % tiers_[top + 1].every == 0) ++top;
  return top;
}

double Job::stall_s(std::size_t tier) const {
  return is_first_ ? sim_.first->stall_s : tiers_[tier].times.stall_s;
}

void Job::finish_writes() {
  for (std::size_t i = 0; i < writes_.size();) {
    if (!is_done_by(writes_[i], now_s_)) {
      ++i;
      continue;
    }
    end_write(writes_[i]);
    writes_.erase(writes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// Time passes up to `until_s`, in which no write ends but at its end.
void Job::advance(double until_s) {
  if (rate_bytes_per_s_ > 0 && !writes_.empty()) {
    const double each = (until_s - now_s_) * rate_bytes_per_s_ / static_cast<double>(writes_.size());
    for (Write& write : writes_) write.left_bytes -= each;
  }
  now_s_ = until_s;
}

/// From the first step after a recovery to the next failure or the end of the job.
void Job::live() {
  const double end_s = std::min(failure_.at_s, horizon_s_);
  const double slowdown = sim_.saves.times.slowdown;
  while (now_s_ < end_s) {
    const bool is_held_up = is_slow();
    const double pace = is_held_up ? 1 - sim_.stragglers.slowdown : 1;
    const double slowed = slowdown > 0 ? slowdown * static_cast<double>(in_flight()) : 0;
    const double speed = pace * std::max(1 - slowed, 0.0);
    // A save that waits is due when a write has ended, at which the loop comes by anyway.
    const bool waits = work_s_ >= next_due_s_ && is_waiting() && is_full();
    const double left_s = std::max(next_due_s_ - work_s_, 0.0);
    const double due_s = waits ? kInfinity : now_s_ + (left_s > 0 ? left_s / speed : 0);
    const double until_s =
        std::min({due_s, end_s, next_write_s(), is_held_up ? slow_until_s_ : next_slow_s_});
    const double passed_s = until_s - now_s_;
    work_s_ += passed_s * speed;
    spent_.slowdown += passed_s * (1 - speed);
    advance(until_s);
    if (until_s == due_s) work_s_ = std::max(work_s_, next_due_s_);
    finish_writes();
    if (now_s_ >= end_s || until_s != due_s) continue;
    const bool has_no_room = is_full();
    if (has_no_room && is_waiting()) continue;
    next_due_s_ = work_s_ + interval_s();
    if (has_no_room)
      out_.saves_skipped += 1;
    else
      save();
    is_first_ = false;
  }
}

/// A stall, in which earlier writes go on, and then the writes of this save.
void Job::save() {
  const double end_s = std::min(failure_.at_s, horizon_s_);
  const std::size_t top = tier_due();
  const double snapped_at_s = now_s_ + stall_s(top);
  while (now_s_ < std::min(snapped_at_s, end_s)) {
    const double until_s = std::min({snapped_at_s, end_s, next_write_s()});
    spent_.stall += until_s - now_s_;
    advance(until_s);
    finish_writes();
  }
  if (snapped_at_s > end_s) return;
  out_.saves += 1;
  count_ += 1;
  const bool is_straggling =
      sim_.stragglers.write_share > 0 && slow_random_.uniform() < sim_.stragglers.write_share;
  const double times = is_straggling ? sim_.stragglers.write_factor : 1;
  for (std::size_t i = 0; i <= top; ++i) {
    const Write write{{work_s_, count_},
                      i,
                      now_s_ + times * tiers_[i].times.persist_s,
                      rate_bytes_per_s_ > 0 ? times * *sim_.job.state_bytes : 0,
                      i == top};
    if (rate_bytes_per_s_ <= 0 && !(tiers_[i].times.persist_s > 0))
      end_write(write);
    else
      writes_.push_back(write);
  }
  out_.stored_max = std::max(out_.stored_max, static_cast<double>(stored_ + in_flight()));
}

std::size_t Job::kind_of(const Failure& failure) {
  out_.failures += 1;
  if (failure.is_group) {
    out_.group_failures += 1;
    return tiers_.size() - 1;
  }
  if (tiers_.size() == 1) return 0;
  const double u = random_.uniform();
  std::size_t kind = 0;
  while (kind + 1 < tiers_.size() && u >= tiers_[kind + 1].kind_below) ++kind;
  return kind;
}

void Job::fail() {
  const JobTimes& times = sim_.saves.times;
  const std::size_t kind = kind_of(failure_);
  const bool is_noticed = times.notice_share > 0 && random_.uniform() < times.notice_share;
  if (is_noticed) {
    for (Tier& tier : tiers_) tier.newest = {work_s_, 0};
    out_.saves += 1;
    stored_ = std::min<std::uint64_t>(stored_ + 1, sim_.job.keep_last);
  }
  failure_ = source_.next();
  recover(kind, is_noticed ? times.notice_cost_s : 0);
}

/// Back to the newest checkpoint that survived. What fails on the way only begins the way anew, from a safer
/// tier where that takes it.
void Job::recover(std::size_t kind, double first_cost_s) {
  const std::deque<Write> cut_off = std::exchange(writes_, {});
  double takes_s = first_cost_s + recovery_s(kind);
  while (true) {
    const double done_s = now_s_ + takes_s;
    const double until_s = std::min({done_s, failure_.at_s, horizon_s_});
    spent_.recovery += until_s - now_s_;
    now_s_ = until_s;
    if (is_over() || failure_.at_s > done_s) break;
    kind = std::max(kind, kind_of(failure_));
    failure_ = source_.next();
    takes_s = recovery_s(kind);
  }
  Point best = tiers_[kind].newest;
  for (std::size_t i = kind + 1; i < tiers_.size(); ++i)
    if (tiers_[i].newest.work_s > best.work_s) best = tiers_[i].newest;
  for (std::size_t i = 0; i < kind; ++i) tiers_[i].newest = best;
  // In a snapshot for a tier that survives, but not durable there yet.
  double snapped_s = best.work_s;
  for (const Write& write : cut_off)
    if (write.tier >= kind) snapped_s = std::max(snapped_s, write.point.work_s);
  spent_.lost_work += work_s_ - snapped_s;
  spent_.persist_lag += snapped_s - best.work_s;
  work_s_ = best.work_s;
  count_ = best.saves;
  is_first_ = sim_.first.has_value();
  next_due_s_ = work_s_ + (is_first_ ? sim_.first->work_s : interval_s());
}

SeedResult Job::run() {
  failure_ = source_.next();
  recover(tiers_.size() - 1, 0);
  while (!is_over()) {
    live();
    if (!is_over()) fail();
  }
  out_.efficiency = work_s_ / horizon_s_;
  out_.lost_gpu_hours = (1 - out_.efficiency) * sim_.job.gpus * horizon_s_ / 3600;
  out_.waste = {.stall = spent_.stall / horizon_s_,
                .lost_work = spent_.lost_work / horizon_s_,
                .recovery = spent_.recovery / horizon_s_,
                .persist_lag = spent_.persist_lag / horizon_s_,
                .slowdown = spent_.slowdown / horizon_s_};
  return out_;
}

}  // namespace

SeedResult simulate_seed(const Simulation& simulation, std::uint64_t seed) {
  return Job(simulation, seed).run();
}

}  // namespace unbroken
