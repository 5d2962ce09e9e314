#include "engine/pace/pace.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cadence/explain.h"
#include "world/advice.h"

namespace unbroken {

namespace {

/// Away for longer than this is waiting in a queue or for a person, not recovery.
constexpr double kAwayMax_s = 3600;
constexpr double kAccountShare = 0.05;
constexpr double kAccountMin_s = 0.2, kAccountMax_s = 30;

double seconds(Instant at) {
  return seconds_of(at.since_boot);
}

template <class T>
void keep_last_few(std::vector<T>& values, T value) {
  values.push_back(std::move(value));
  if (values.size() > kAccountValues) values.erase(values.begin());
}

}  // namespace

Result<Pace> Pace::create(const PaceOptions& options, const Seams& seams, const History& history,
                          const Deadline& by) {
  CadenceOptions wanted = options.cadence;
  wanted.given_s = options.schedule.interval_s();
  wanted.given_steps = options.schedule.steps();
  const Past past = read_past(seams, history, by);
  UNBROKEN_TRY(Cadence cadence, Cadence::create(wanted, past.lives));
  if (past.last) cadence.remember(past.last->costs, past.last->recoveries_s, past.last->step_s);
  // Whoever promises anew is told no; a run that goes on with an old promise is not stopped for it.
  const bool is_new_promise = past.last && past.last->rpo_s != wanted.rpo_s;
  if (is_new_promise && past.last->costs.size() > 1 && !cadence.plan().broken_promise.empty())
    return Error(Code::bad_argument, cadence.plan().broken_promise + ": promise more than that")
        .next("unbroken explain " + shell_word(seams.store.identity().path));

  Pace out(options, std::move(cadence));
  out.account_.rpo_s = wanted.rpo_s;
  out.is_recovery_ = past.has_lost_work;
  if (!past.last) return out;
  out.account_.costs = past.last->costs;
  out.account_.recoveries_s = past.last->recoveries_s;
  out.last_step_s_ = past.last->step_s;
  out.last_sign_unix_ms_ = past.last->at_unix_ms;
  return out;
}

void Pace::start(const Opened& opened, Instant began, const Clock& clock) {
  const Instant now = clock.now();
  const std::uint64_t step = opened.resume ? opened.resume->step : 0;
  began_ = written_ = began;
  cadence_.start(step, seconds(began), seconds(now));
  schedule_.start(seconds(now));
  cadence_.take_news();  // the first line tells all
  account_.run = opened.run;
  account_.attempt = opened.attempt;
  account_.open_slot = opened.open.slot;
  account_.start = account_.step = step;
  const double began_unix_ms = static_cast<double>(clock.wall_unix_ms()) - 1e3 * seconds_of(now - began);
  if (last_sign_unix_ms_) away_s_ = (began_unix_ms - static_cast<double>(*last_sign_unix_ms_)) / 1e3;
  is_recovery_ = is_recovery_ && last_sign_unix_ms_ && away_s_ <= kAwayMax_s;
}

void Pace::on_first_step(Instant now) {
  is_account_due_ = true;
  if (!std::exchange(is_recovery_, false)) return;
  const double own_s = seconds_of(now - began_) - last_step_s_;
  const double recovery_s = std::max(away_s_, 0.0) + std::max(own_s, 0.0);
  cadence_.on_recovery(recovery_s);
  keep_last_few(account_.recoveries_s, recovery_s);
}

void Pace::on_step(std::uint64_t step, Instant now) {
  if (account_.step == account_.start) on_first_step(now);
  account_.step = step;
  cadence_.on_step(step, seconds(now));
}

Pace::Verdict Pace::decide(std::uint64_t step, Instant now, bool is_saving) {
  if (is_automatic())
    return cadence_.should_save(step, seconds(now), is_saving ? 1 : 0) ? Verdict::yes : Verdict::no;
  if (keep_every_ > 0 && step % keep_every_ == 0) return Verdict::yes;
  if (!schedule_.is_due(step, seconds(now))) return Verdict::no;
  if (!is_saving) return Verdict::yes;
  schedule_.on_save(seconds(now));
  return Verdict::skipped;
}

void Pace::on_save(Instant now) {
  schedule_.on_save(seconds(now));
  cadence_.on_save(seconds(now));
}

void Pace::follow(const std::vector<std::optional<Status::Cost>>& ends, Instant now) {
  const bool was_broken = !plan().broken_promise.empty();
  for (const std::optional<Status::Cost>& end : ends) {
    if (!end) {
      cadence_.on_failed(seconds(now));
      continue;
    }
    const SaveCost cost{end->exposed_s, end->durable_s};
    cadence_.on_kept(seconds(end->snapped), seconds(end->snapped) + end->durable_s);
    cadence_.on_cost(cost, seconds(now));
    keep_last_few(account_.costs, cost);
    is_account_due_ = true;
  }
  cadence_.watch(seconds(now));
  if (plan().broken_promise.empty() == was_broken) is_account_due_ = true;
  is_line_due_ = cadence_.take_news() || is_line_due_;
}

std::optional<std::string> Pace::take_line() {
  if (!std::exchange(is_line_due_, false)) return std::nullopt;
  return "auto: " + explain_text(plan(), cadence_.mtti_ci95_s());
}

bool Pace::is_account_due(Instant now) const {
  if (is_account_due_) return true;
  const double share_s = kAccountShare * seconds_of(now - began_);
  return seconds_of(now - written_) >= std::clamp(share_s, kAccountMin_s, kAccountMax_s);
}

std::string Pace::account(Instant now, std::int64_t wall_unix_ms, bool is_closed, std::optional<int> code) {
  is_account_due_ = false;
  written_ = now;
  account_.at_unix_ms = wall_unix_ms;
  account_.alive_s = seconds_of(now - began_);
  account_.step_s = cadence_.step_s();
  account_.is_closed = is_closed;
  account_.code = code;
  account_.plan = plan();
  account_.mtti_ci95 = cadence_.mtti_ci95_s();
  return encode_account(account_);
}

}  // namespace unbroken
