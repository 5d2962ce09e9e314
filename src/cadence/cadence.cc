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
constexpr double kStale = 0.01;          // an interval of so many steps follows how long they take
constexpr double kGridReach = 0.1;       // of the interval
constexpr double kPauseOfPromise = 0.1;  // between failing saves, at most
constexpr double kNews = 1.5;            // an interval that changed so much is told
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeast_s = 1e-9;  // of what somebody expects or wants
/// The longest while nobody said how often the job dies.
constexpr double kQuiet_s = 3600, kQuietStalls = 50;

std::string count_of(double count, std::string_view one, std::string_view many) {
  return fmt::format("{:.0f} {}", count, count == 1 ? one : many);
}

Result<> check(const CadenceOptions& o) {
  const auto refuse = [](std::string why) { return Error(Code::bad_argument, std::move(why)); };
  for (const auto& [name, value] : {std::pair("mtti", o.mtti_s.value_or(kLeast_s)), std::pair("rpo", o.rpo_s),
                                    std::pair("every_max", o.every_max_s)})
    if (value > 0 && value < kLeast_s)
      return refuse(fmt::format("{}: {} s is out of range: less than a nanosecond", name, value));
  if (!(o.nodes >= 1)) return refuse(fmt::format("nodes: {} is less than 1", o.nodes));
  if (o.mtti_s && !(*o.mtti_s > 0)) return refuse(fmt::format("mtti: {} s is not above 0", *o.mtti_s));
  if (!(o.rpo_s > 0)) return refuse(fmt::format("rpo: {} s is not above 0", o.rpo_s));
  if (!(o.every_min_s >= 0)) return refuse(fmt::format("every_min: {} s is negative", o.every_min_s));
  if (!(o.every_min_s < kInfinity)) return refuse("every_min: nothing would ever be saved");
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

Result<Cadence> Cadence::create(const CadenceOptions& options, std::span<const PastLife> history) {
  UNBROKEN_DO(check(options));
  FailurePrior prior = FailurePrior::assumed(options.nodes);
  if (options.mtti_s && *options.mtti_s < kInfinity) prior.weight = FailurePrior{}.weight;
  if (options.mtti_s) prior.per_1000_node_days = failures_per_1000_node_days(options.nodes, *options.mtti_s);
  Cadence out(options, prior);
  for (const PastLife& life : history) {
    out.rate_.on_alive(std::max(life.seconds, 0.0) * life.nodes / kSecondsInDay);
    if (life.has_lost_work) out.rate_.on_failure();
    // Lives that end before their second save get nowhere: each halves the interval, and the next save comes
    // before half of the shortest of them is over.
    if (life.has_lost_work && life.saves < 2) {
      out.short_lives_ += 1;
      out.shortest_life_s_ = std::min(out.shortest_life_s_, std::max(life.seconds, 1.0));
    } else {
      out.short_lives_ = 0;
      out.shortest_life_s_ = kInfinity;
    }
  }
  out.replan(0);
  return out;
}

void Cadence::remember(std::span<const SaveCost> costs, std::span<const double> recoveries_s, double step_s) {
  slow_s_ = step_s;
  for (const SaveCost& cost : costs) {
    stall_s_.add(std::max(cost.stall_s, 0.0));
    persist_s_.add(std::max(cost.persist_s, 0.0));
  }
  for (const double recovery_s : recoveries_s) on_recovery(recovery_s);
  replan(0);
}

/// A save falls on the end of a step.
void Cadence::set_interval(CadencePlan& plan) const {
  plan.interval_s = std::max(work_s_, step_s_);
  plan.efficiency = efficiency(std::max(plan.interval_s, 1e-9), {.stall_s = plan.stall_s,
                                                                 .mtti_s = plan.mtti_s,
                                                                 .recovery_s = plan.recovery_s,
                                                                 .persist_s = plan.persist_s});
}

void Cadence::start(std::uint64_t step, double began_s, double now_s) {
  alive_until_s_ = began_s;
  last_s_ = seen_s_ = kept_s_ = now_s;
  seen_step_ = step;
  replan(now_s);
}

double Cadence::due_s() const {
  // A promise is kept at the boundary before it would break.
  const double work_s = std::min(work_s_, promised_s_ - std::max(step_s_, slow_s_));
  return std::min(last_s_ + work_s, retry_s_);
}

void Cadence::on_step(std::uint64_t step, double now_s) {
  if (step <= seen_step_) return;
  const double one = (now_s - seen_s_) / static_cast<double>(step - seen_step_);
  step_s_ = step_s_ > 0 ? step_s_ + 0.1 * (one - step_s_) : one;
  if (one_s_ > 0) slow_s_ = std::min(one_s_, one);
  one_s_ = one;
  seen_step_ = step;
  seen_s_ = now_s;
  const double given_s = given_interval_s();
  if (std::abs(given_s - work_s_) > kStale * work_s_ && plan_.bound_by == BoundBy::given) {
    work_s_ = given_s;
    set_interval(plan_);
  }
  const bool is_promise_broken = slow_s_ > promised_s_;
  if (is_promise_broken && plan_.broken_promise.empty()) replan(now_s);
}

bool Cadence::should_save(std::uint64_t step, double now_s, std::uint32_t persisting) {
  on_step(step, now_s);
  const std::uint64_t past_grid = options_.keep_every > 0 ? step % options_.keep_every : 0;
  if (options_.keep_every > 0 && past_grid == 0) return true;
  if (now_s < due_s() || persisting >= options_.in_flight) return false;
  if (options_.keep_every == 0) return true;
  const double grid_s = now_s + static_cast<double>(options_.keep_every - past_grid) * step_s_;
  return grid_s > due_s() + kGridReach * plan_.interval_s || grid_s > last_s_ + promised_s_;
}

void Cadence::on_save(double now_s) {
  last_s_ = seen_s_ = now_s;
  retry_s_ = kNever_s;
}

void Cadence::on_kept(double snapped_s, double durable_s) {
  note_exposed(durable_s - kept_s_);
  if (!std::exchange(is_exposed_, false)) breach_.clear();
  kept_s_ = std::max(kept_s_, snapped_s);
  retry_s_ = kNever_s;
  failed_ = 0;
}

void Cadence::on_failed(double now_s) {
  const double takes_s = stall_s_.count() > 0 ? stall_s_.value() + persist_s_.value() : now_s - last_s_;
  const double most_s = std::min(plan_.interval_s, std::max(takes_s, kPauseOfPromise * options_.rpo_s));
  pause_s_ = std::min(failed_ > 0 ? 2 * pause_s_ : takes_s, most_s);
  retry_s_ = now_s + pause_s_;
  last_s_ = now_s;
  failed_ += 1;
}

void Cadence::watch(double now_s) {
  const std::string before = breach_;
  note_exposed(now_s - kept_s_);
  if (plan_.broken_promise.empty() || plan_.broken_promise == before) plan_.broken_promise = breach_;
}

void Cadence::note_exposed(double exposed_s) {
  if (!(exposed_s > options_.rpo_s)) return;
  plan_.exposed_s = std::max(plan_.exposed_s, exposed_s);
  if (!std::exchange(is_exposed_, true)) plan_.breaks += 1;
  breach_ = fmt::format("rpo: {} was not kept: more than that would have been lost, as {}",
                        format_duration(options_.rpo_s),
                        failed_ > 1    ? fmt::format("the last {} saves failed", failed_)
                        : failed_ == 1 ? "the last save failed"
                                       : "a save or a step took longer than those before");
}

void Cadence::on_cost(const SaveCost& cost, double now_s) {
  stall_s_.add(std::max(cost.stall_s, 0.0));
  persist_s_.add(std::max(cost.persist_s, 0.0));
  if (++saves_ == 2) {
    short_lives_ = 0;
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

/// What is known, before anything is decided.
CadencePlan Cadence::measured() const {
  CadencePlan out;
  out.saves = static_cast<std::uint32_t>(stall_s_.count());
  out.stall_s = stall_s_.value();
  out.persist_s = persist_s_.value();
  out.recoveries = static_cast<std::uint32_t>(recovery_s_.count());
  out.recovery_s = out.recoveries > 0 ? recovery_s_.value() : options_.recovery_s;
  out.mtti_s = mtti_s();
  out.failures = rate_.failures();
  out.node_days = rate_.node_days();
  out.breaks = plan_.breaks;
  out.exposed_s = plan_.exposed_s;
  out.prior_per_1000_node_days = rate_.prior().per_1000_node_days;
  out.prior_node_days = rate_.prior_node_days();
  out.floor_s = out.persist_s / options_.in_flight;  // a save begins when there is room, not before
  out.exact_s = kInfinity;                           // nothing to weigh until a save was measured
  if (out.saves > 0 && std::isfinite(out.mtti_s))
    out.exact_s = out.stall_s > 0 ? exact_interval_s(out.stall_s, out.mtti_s) : 0;
  return out;
}

double Cadence::given_interval_s() const {
  return options_.given_s > 0 ? options_.given_s : static_cast<double>(options_.given_steps) * step_s_;
}

/// Holds the optimum where too little is known to follow it.
void Cadence::limit(CadencePlan& plan, Choice& choice) const {
  const bool is_free = std::isfinite(options_.rpo_s) || std::isfinite(options_.every_max_s);
  if (!has_given_prior()) choice.quiet_s = std::max(kQuiet_s, kQuietStalls * plan.stall_s);
  if (!has_given_prior() && !is_free && std::isfinite(choice.exact_s) && choice.exact_s > choice.quiet_s) {
    choice.exact_s = kInfinity;
    plan.note = fmt::format("at most {} as long as mtti= is not given", format_duration(choice.quiet_s));
  }
  if (short_lives_ == 0) return;
  // Lives that got nowhere.
  const double usual_s = std::isfinite(choice.exact_s) ? choice.exact_s : choice.quiet_s;
  // Nothing gets further by saves that follow each other at once.
  const double halved_s =
      std::min(std::ldexp(usual_s, -static_cast<int>(std::min(short_lives_, 60U))), shortest_life_s_ / 2);
  const double short_s = std::min(usual_s, std::max(halved_s, plan.stall_s + plan.persist_s));
  (std::isfinite(choice.exact_s) ? choice.exact_s : choice.quiet_s) = short_s;
  plan.note = fmt::format("cut from {} to {} because {} in a row ended before the second save",
                          format_duration(usual_s), format_duration(short_s),
                          count_of(short_lives_, "life", "lives"));
}

void Cadence::choose(CadencePlan& plan) {
  promised_s_ = kNever_s;
  if (options_.given_s > 0 || options_.given_steps > 0) {
    plan.interval_s = given_interval_s();
    plan.bound_by = BoundBy::given;
    return;
  }
  // A promise leaves room for a save somewhat slower than the last few, where it can.
  const double slowest_s = std::max(plan.persist_s, persist_s_.max());
  const double margin_s = std::min(plan.persist_s, 2 * (slowest_s - plan.persist_s));
  Choice choice{.exact_s = plan.exact_s,
                .floor_s = plan.floor_s,
                .slow_s = persist_s_.max() / options_.in_flight,
                .stall_s = plan.stall_s,
                .persist_s = slowest_s + margin_s,
                .step_s = slow_s_,
                .rpo_s = options_.rpo_s,
                .min_s = options_.every_min_s,
                .max_s = options_.every_max_s};
  limit(plan, choice);
  auto chosen = choose_interval(choice);
  if (!chosen.ok()) choice.persist_s = slowest_s, chosen = choose_interval(choice);
  promised_s_ = choice.rpo_s - choice.stall_s - choice.persist_s;
  if (!chosen.ok()) {
    plan.broken_promise = chosen.error().what();
    promised_s_ = kNever_s;
    plan.interval_s = std::max(choice.floor_s, options_.every_min_s);
    plan.bound_by = BoundBy::floor;
  } else {
    plan.interval_s = chosen.value().interval_s;
    plan.bound_by = chosen.value().bound_by;
  }
}

/// Leaves the interval as it is, less than a tenth away.
void Cadence::keep_near(CadencePlan& next) const {
  next.interval_s = work_s_;
  const double gap = std::abs(next.interval_s - next.exact_s);
  if (next.note.empty() && gap > 0.005 * next.exact_s) next.note = "left as it was, less than a tenth away";
}

void Cadence::replan(double now_s) {
  rate_.on_alive(std::max(now_s - alive_until_s_, 0.0) * options_.nodes / kSecondsInDay);
  alive_until_s_ = now_s;
  CadencePlan next = measured();
  choose(next);
  // A floor or a promise is followed at once; only an optimum may lag.
  const bool is_near = std::abs(next.interval_s - work_s_) <= kHysteresis * work_s_;
  if (is_near && next.bound_by == BoundBy::optimum && plan_.bound_by == BoundBy::optimum) keep_near(next);
  work_s_ = next.interval_s;
  set_interval(next);
  plan_ = std::move(next);
  if (plan_.bound_by == BoundBy::given) return;
  const bool is_far = work_s_ > kNews * said_s_ || work_s_ * kNews < said_s_;
  const bool has_moved = std::abs(work_s_ - said_s_) > kHysteresis * said_s_;
  const bool is_held = has_moved && plan_.bound_by == BoundBy::floor && said_.bound_by != BoundBy::floor;
  const bool is_broken = !plan_.broken_promise.empty() && said_.broken_promise.empty();
  has_news_ = has_news_ || is_far || is_held || is_broken;
  if (plan_.broken_promise.empty()) plan_.broken_promise = breach_;
}

Cadence::Range Cadence::mtti_ci95_s() const {
  const auto mtti = [&](double per_node_day) {
    const double rate = per_node_day * options_.nodes;
    return rate > 0 ? kSecondsInDay / rate : kInfinity;
  };
  const FailureRate::Range rate = rate_.ci95_per_node_day();
  return {mtti(rate.high), mtti(rate.low)};
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
  if (has_news_) said_ = plan_, said_s_ = work_s_;
  return std::exchange(has_news_, false);
}

}  // namespace unbroken
