#include "cadence/cadence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "cadence/formulas.h"

namespace unbroken {

namespace {

constexpr double kSecondsInDay = 86400;
constexpr double kHysteresis = 0.1;
constexpr double kGridReach = 0.1;  // of the interval
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Result<> check(const CadenceOptions& o) {
  const auto refuse = [](std::string why) { return Error(Code::bad_argument, std::move(why)); };
  if (!(o.nodes >= 1)) return refuse(fmt::format("nodes: {} is less than 1", o.nodes));
  if (o.mtti_s && !(*o.mtti_s > 0)) return refuse(fmt::format("mtti: {} s is not above 0", *o.mtti_s));
  if (!(o.rpo_s > 0)) return refuse(fmt::format("rpo: {} s is not above 0", o.rpo_s));
  if (!(o.every_min_s >= 0)) return refuse(fmt::format("every_min: {} s is negative", o.every_min_s));
  if (!(o.every_max_s > 0)) return refuse(fmt::format("every_max: {} s is not above 0", o.every_max_s));
  if (!(o.every_min_s <= o.every_max_s))
    return refuse(fmt::format("every_min {} is above every_max {}", format_duration(o.every_min_s),
                              format_duration(o.every_max_s)));
  if (!(o.every_min_s < o.rpo_s))
    return refuse(fmt::format("rpo {} cannot be kept with every_min {}", format_duration(o.rpo_s),
                              format_duration(o.every_min_s)));
  return Done{};
}

}  // namespace

Result<Cadence> Cadence::create(const CadenceOptions& options, std::span<const Life> history) {
  UNBROKEN_DO(check(options));
  FailurePrior prior;
  if (options.mtti_s) prior.per_1000_node_days = failures_per_1000_node_days(options.nodes, *options.mtti_s);
  Cadence out(options, prior);
  for (const Life& life : history) {
    out.rate_.on_alive(std::max(life.seconds, 0.0) * life.nodes / kSecondsInDay);
    if (life.has_lost_work) out.rate_.on_failure();
    // Lives that end before their second save get nowhere: each halves the interval, and the next save comes
    // before half of the shortest of them is over.
    if (life.has_lost_work && life.saves < 2) {
      out.shortened_ /= 2;
      out.shortest_life_s_ = std::min(out.shortest_life_s_, std::max(life.seconds, 1.0));
    } else {
      out.shortened_ = 1;
      out.shortest_life_s_ = kInfinity;
    }
  }
  out.replan(0);
  out.has_news_ = false;
  return out;
}

void Cadence::start(std::uint64_t step, double now_s) {
  alive_until_s_ = last_s_ = seen_s_ = now_s;
  seen_step_ = step;
  replan(now_s);
}

double Cadence::due_s() const {
  // A promise is kept at the boundary before it would break.
  return last_s_ + plan_.interval_s - (plan_.bound_by == BoundBy::rpo ? step_s_ : 0);
}

bool Cadence::should_save(std::uint64_t step, double now_s) {
  if (step > seen_step_) {
    const double one = (now_s - seen_s_) / static_cast<double>(step - seen_step_);
    step_s_ = step_s_ > 0 ? step_s_ + 0.1 * (one - step_s_) : one;
    seen_step_ = step;
    seen_s_ = now_s;
  }
  const std::uint64_t past_grid = options_.keep_every > 0 ? step % options_.keep_every : 0;
  if (options_.keep_every > 0 && past_grid == 0) return true;
  if (now_s < due_s()) return false;
  if (options_.keep_every == 0 || plan_.bound_by == BoundBy::rpo) return true;
  const double wait_s = static_cast<double>(options_.keep_every - past_grid) * step_s_;
  return now_s + wait_s > due_s() + kGridReach * plan_.interval_s;
}

void Cadence::on_save(double now_s) {
  // The next stretch of work begins after the stall, which belongs to the period and not to the interval.
  last_s_ = seen_s_ = now_s + plan_.stall_s;
}

void Cadence::on_cost(const SaveCost& cost, double now_s) {
  stall_s_.add(std::max(cost.stall_s, 0.0));
  persist_s_.add(std::max(cost.persist_s, 0.0));
  if (stall_s_.count() == 2) {
    shortened_ = 1;
    shortest_life_s_ = kInfinity;
  }
  replan(now_s);
}

void Cadence::on_recovery(double seconds) {
  recovery_s_.add(std::max(seconds, 0.0));
}

double Cadence::mtti_s() const {
  const double rate = rate_.per_node_day() * options_.nodes;
  return rate > 0 ? kSecondsInDay / rate : kInfinity;
}

void Cadence::replan(double now_s) {
  rate_.on_alive(std::max(now_s - alive_until_s_, 0.0) * options_.nodes / kSecondsInDay);
  alive_until_s_ = now_s;

  CadencePlan next;
  next.saves = static_cast<std::uint32_t>(stall_s_.count());
  next.stall_s = stall_s_.value();
  next.persist_s = persist_s_.value();
  next.recovery_s = recovery_s_.count() > 0 ? recovery_s_.value() : options_.recovery_s;
  next.mtti_s = mtti_s();
  next.failures = rate_.failures();
  next.node_days = rate_.node_days();
  next.prior_per_1000_node_days = rate_.prior().per_1000_node_days;
  next.floor_s = floor_interval_s(
      {.stall_s = next.stall_s, .persist_s = next.persist_s, .in_flight = options_.in_flight});
  // A prior that nobody gave and no failure confirmed is no reason to go without a save for hours.
  const bool is_quiet = next.failures == 0 && !options_.mtti_s;
  next.exact_s = kInfinity;  // nothing to weigh until a save was measured
  if (next.saves > 0 && std::isfinite(next.mtti_s))
    next.exact_s = next.stall_s > 0 ? exact_interval_s(next.stall_s, next.mtti_s) : 0;
  Choice choice{.exact_s = next.exact_s * shortened_,
                .floor_s = next.floor_s,
                .stall_s = next.stall_s,
                .persist_s = std::max(next.persist_s, persist_s_.max()),
                .rpo_s = options_.rpo_s,
                .min_s = options_.every_min_s,
                .max_s = options_.every_max_s};
  choice.quiet_s = std::min(choice.quiet_s, shortest_life_s_ / 2);
  if (is_quiet && choice.exact_s > choice.quiet_s) choice.exact_s = kInfinity;
  if (std::isfinite(choice.exact_s)) choice.exact_s = std::min(choice.exact_s, shortest_life_s_ / 2);
  const auto chosen = choose_interval(choice);
  if (!chosen.ok()) {
    next.broken_promise = chosen.error().what();
    next.interval_s = std::max(choice.floor_s, options_.every_min_s);
    next.bound_by = BoundBy::floor;
  } else {
    next.interval_s = chosen.value().interval_s;
    next.bound_by = chosen.value().bound_by;
  }

  const bool is_first = plan_.interval_s <= 0;
  const bool is_near = std::abs(next.interval_s - plan_.interval_s) <= kHysteresis * plan_.interval_s;
  // A floor or a promise is followed at once; only an optimum may lag.
  if (!is_first && is_near && next.bound_by == BoundBy::optimum && plan_.bound_by == BoundBy::optimum)
    next.interval_s = plan_.interval_s;
  else if (!is_near)
    has_news_ = true;
  const double work_s = std::max(next.interval_s, 1e-9);
  next.efficiency = efficiency(work_s, {.stall_s = next.stall_s,
                                        .mtti_s = next.mtti_s,
                                        .recovery_s = next.recovery_s,
                                        .persist_s = next.persist_s});
  plan_ = std::move(next);
}

Cadence::Range Cadence::mtti_ci95_s() const {
  const auto mtti = [&](double share) {
    const double rate = rate_.quantile_per_node_day(share) * options_.nodes;
    return rate > 0 ? kSecondsInDay / rate : kInfinity;
  };
  return {mtti(0.975), mtti(0.025)};
}

std::uint64_t Cadence::next_save_step(std::uint64_t step, double now_s) const {
  std::uint64_t next = step + 1;
  if (step_s_ > 0 && due_s() > now_s)
    next = step + std::max<std::uint64_t>(
                      1, static_cast<std::uint64_t>(std::min(std::ceil((due_s() - now_s) / step_s_), 1e15)));
  if (options_.keep_every == 0) return next;
  const std::uint64_t grid = (step / options_.keep_every + 1) * options_.keep_every;
  const double late_s = grid > next ? static_cast<double>(grid - next) * step_s_ : 0;
  return grid < next || late_s <= kGridReach * plan_.interval_s ? grid : next;
}

bool Cadence::take_news() {
  return std::exchange(has_news_, false);
}

}  // namespace unbroken
