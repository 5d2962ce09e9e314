#include "engine/pace/account.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "format/keys.h"

namespace unbroken {

namespace {

constexpr std::uint64_t kBytesRead = 16384;
/// Lives further back than this say nothing.
constexpr std::size_t kAccountsRead = 64;

std::span<const Attempt> newest_lives(const History& history) {
  const std::span all(history.attempts());
  return all.last(std::min(all.size(), kAccountsRead));
}

Json numbers(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double value : values) out.push_back(json_number(value));
  return out;
}

/// Reads numbers out of an object; keeps what is wrong in its fields.
struct Numbers {
  Fields& fields;
  double read(const Json& value, const char* key, bool may_be_infinite = false) {
    const auto number = number_from_json(value);
    const bool is_fine = number.ok() && number.value() >= 0 &&
                         (may_be_infinite || number.value() <= std::numeric_limits<double>::max());
    if (!is_fine) fields.fail(fmt::format("\"{}\" is not a number from 0 on", key));
    return is_fine ? number.value() : 0;
  }
  double operator()(const char* key, bool may_be_infinite = false) {
    return read(fields.any(key), key, may_be_infinite);
  }
};

Json plan_json(const CadencePlan& plan, const Cadence::Range& ci95) {
  return {{"interval_s", json_number(plan.interval_s)},
          {"bound_by", std::string(name_of(plan.bound_by))},
          {"exact_s", json_number(plan.exact_s)},
          {"floor_s", json_number(plan.floor_s)},
          {"stall_s", json_number(plan.stall_s)},
          {"persist_s", json_number(plan.persist_s)},
          {"recovery_s", json_number(plan.recovery_s)},
          {"mtti_s", json_number(plan.mtti_s)},
          {"mtti_low_s", json_number(ci95.low_s)},
          {"mtti_high_s", json_number(ci95.high_s)},
          {"efficiency", json_number(plan.efficiency)},
          {"failures", json_number(plan.failures)},
          {"node_days", json_number(plan.node_days)},
          {"prior", json_number(plan.prior_per_1000_node_days)},
          {"prior_node_days", json_number(plan.prior_node_days)},
          {"note", plan.note},
          {"saves", plan.saves},
          {"recoveries", plan.recoveries},
          {"broken_promise", plan.broken_promise},
          {"promise_breaks", plan.breaks},
          {"exposed_s", json_number(plan.exposed_s)}};
}

Result<> read_plan(const Json& value, Account& out) {
  Fields f(value, "account: plan");
  Numbers number{f};
  CadencePlan& plan = out.plan;
  plan.interval_s = number("interval_s", true);
  const auto bound = bound_from(f.text("bound_by", 64));
  if (!bound) f.fail("\"bound_by\" is no such word");
  plan.bound_by = bound.value_or(BoundBy::given);
  plan.exact_s = number("exact_s", true);
  plan.floor_s = number("floor_s");
  plan.stall_s = number("stall_s");
  plan.persist_s = number("persist_s");
  plan.recovery_s = number("recovery_s");
  plan.mtti_s = number("mtti_s", true);
  out.mtti_ci95 = {number("mtti_low_s", true), number("mtti_high_s", true)};
  plan.efficiency = number("efficiency");
  plan.failures = number("failures");
  plan.node_days = number("node_days");
  plan.prior_per_1000_node_days = number("prior");
  plan.saves = f.u32("saves");
  // An account of an older version has none of what is asked for.
  if (f.has("prior_node_days")) plan.prior_node_days = number("prior_node_days");
  if (f.has("note")) plan.note = printable(f.text("note"));
  if (f.has("recoveries")) plan.recoveries = f.u32("recoveries");
  plan.broken_promise = printable(f.text("broken_promise"));
  if (f.has("promise_breaks")) plan.breaks = f.u32("promise_breaks"), plan.exposed_s = number("exposed_s");
  return f.end();
}

/// That of an attempt, if it is there, whole, and of this very OPEN.
Result<Account> account_of(const Seams& seams, const History& history, const Attempt& attempt,
                           const Deadline& by) {
  const std::string key = account_key(attempt.open.attempt);
  const auto text = seams.store.get(key, kBytesRead, by);
  if (text.is(Code::not_found)) return Error(Code::not_found, key + " is missing");
  UNBROKEN_DO(text);
  auto account = decode_account(text.value());
  if (!account.ok()) return std::move(account).error().with(key + " is damaged");
  if (account.value().run != history.genesis()->run || account.value().open_slot != attempt.slot ||
      account.value().attempt != attempt.open.attempt)
    return Error(Code::corrupt, key + " is that of another life");
  return account;
}

PastLife life_of(const Attempt& attempt, const std::optional<Account>& account) {
  PastLife out;
  out.nodes = 1;
  out.saves = attempt.commits;
  if (!account) {
    // That it lived to its last commit is all that is known: how it ended, and what it lost, is not.
    out.seconds =
        static_cast<double>(std::max<std::int64_t>(attempt.last_sign_unix_ms - attempt.at_unix_ms, 0)) / 1e3;
    out.has_lost_work = false;
    return out;
  }
  out.seconds = account->alive_s;
  // One that was killed may have been on its way from its last step to the next, even if that one was saved.
  out.has_lost_work =
      account->step > account->start && (!account->is_closed || unsaved_steps(*account, attempt) > 0);
  return out;
}

/// The step of the last whole line of its metrics; 0 where there is none.
std::uint64_t step_in_metrics(const Seams& seams, std::uint32_t attempt, const Deadline& by) {
  const auto reader = seams.store.open_reader(metrics_key(attempt), by);
  if (!reader.ok()) return 0;
  const std::uint64_t bytes = reader.value()->bytes();
  std::string tail(std::min(bytes, kBytesRead), '\0');
  if (!reader.value()->read(bytes - tail.size(), std::as_writable_bytes(std::span(tail))).ok()) return 0;
  const std::size_t end = tail.rfind('\n');
  if (end == std::string::npos || end == 0) return 0;
  const std::size_t before = tail.rfind('\n', end - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const auto line = parse_json(std::string_view(tail).substr(begin, end - begin));
  if (!line.ok()) return 0;
  const auto step = line.value().find("step");
  return step != line.value().end() && step->is_number_unsigned() ? step->get<std::uint64_t>() : 0;
}

/// Up to its last sign of life: its account, and the steps after that which its metrics tell of.
void add_unseen(KeptPromises& sum, const Account& account, const Attempt& attempt,
                std::uint64_t metrics_step) {
  if (account.is_closed || std::max(account.step, metrics_step) <= account.start) return;
  const double later = metrics_step > account.step ? static_cast<double>(metrics_step - account.step) : 0;
  const double lost_s =
      static_cast<double>(account.at_unix_ms - attempt.last_sign_unix_ms) / 1e3 + later * account.step_s;
  if (lost_s > std::max(account.rpo_s, account.plan.exposed_s)) sum.unseen_s = std::max(sum.unseen_s, lost_s);
}

}  // namespace

std::string account_key(std::uint32_t attempt) {
  return fmt::format("{}a{:04}.account", kMetricsPrefix, attempt);
}

std::uint64_t unsaved_steps(const Account& account, const Attempt& attempt) {
  const std::uint64_t saved = std::max(account.start, attempt.last_commit ? attempt.last_commit->step : 0);
  return account.step > saved ? account.step - saved : 0;
}

std::string encode_account(const Account& a) {
  Json costs = Json::array();
  for (const SaveCost& cost : a.costs)
    costs.push_back(Json::array({json_number(cost.stall_s), json_number(cost.persist_s)}));
  Json fields = {{"run", a.run},
                 {"attempt", a.attempt},
                 {"open", a.open_slot},
                 {"at", a.at_unix_ms},
                 {"alive_s", json_number(a.alive_s)},
                 {"start", a.start},
                 {"step", a.step},
                 {"step_s", json_number(a.step_s)},
                 {"closed", a.is_closed},
                 {"rpo_s", json_number(a.rpo_s)},
                 {"costs", std::move(costs)},
                 {"recoveries_s", numbers(a.recoveries_s)},
                 {"plan", plan_json(a.plan, a.mtti_ci95)}};
  if (a.code) fields["code"] = *a.code;
  auto text = seal(std::move(fields));
  UNBROKEN_CHECK(text.ok());
  return std::move(text).value();
}

Result<Account> decode_account(std::string_view bytes) {
  UNBROKEN_TRY(const Sealed sealed, open_sealed(bytes, {.bytes = kBytesRead, .depth = 4, .nodes = 256}));
  Fields f(sealed.value, "account");
  Numbers number{f};
  Account out;
  out.run = f.text("run", 64);
  out.attempt = f.u32("attempt");
  out.open_slot = f.u64("open");
  const Json& at = f.any("at");
  if (at.is_number_integer()) out.at_unix_ms = at.get<std::int64_t>();
  if (!at.is_number_integer()) f.fail("\"at\" is not a time");
  out.alive_s = number("alive_s");
  out.start = f.u64("start");
  out.step = f.u64("step");
  out.step_s = number("step_s");
  out.is_closed = f.boolean("closed");
  if (f.has("code")) out.code = static_cast<int>(f.u32("code"));
  out.rpo_s = number("rpo_s", true);
  for (const Json& cost : f.array("costs", kAccountValues)) {
    if (!cost.is_array() || cost.size() != 2) {
      f.fail("\"costs\" holds what is no pair");
      break;
    }
    out.costs.push_back({number.read(cost[0], "costs"), number.read(cost[1], "costs")});
  }
  for (const Json& value : f.array("recoveries_s", kAccountValues))
    out.recoveries_s.push_back(number.read(value, "recoveries_s"));
  const Json& plan = f.object("plan");
  UNBROKEN_DO(f.end());
  UNBROKEN_DO(read_plan(plan, out));
  return out;
}

Past read_past(const Seams& seams, const History& history, const Deadline& by) {
  Past out;
  for (const Attempt& attempt : newest_lives(history)) {
    std::optional<Account> account;
    if (auto read = account_of(seams, history, attempt, by); read.ok()) account = std::move(read).value();
    out.lives.push_back(life_of(attempt, account));
    out.has_lost_work = out.lives.back().has_lost_work;
    if (account) out.last = std::move(account);
  }
  return out;
}

KeptPromises read_promises(const Seams& seams, const History& history, const Deadline& by) {
  KeptPromises out;
  const std::span<const Attempt> attempts = newest_lives(history);
  bool is_newest = true;
  for (std::size_t i = attempts.size(); i-- > 0;) {
    const auto account = account_of(seams, history, attempts[i], by);
    if (!account.ok()) continue;
    const Account& a = account.value();
    if (i + 1 < attempts.size())
      add_unseen(out, a, attempts[i], step_in_metrics(seams, attempts[i].open.attempt, by));
    if (std::exchange(is_newest, false)) continue;
    out.breaks += a.plan.breaks;
    out.exposed_s = std::max(out.exposed_s, a.plan.exposed_s);
  }
  return out;
}

Result<LastAccount> read_account(const Seams& seams, const History& history, const Deadline& by) {
  LastAccount out;
  for (auto attempt = history.attempts().rbegin(); attempt != history.attempts().rend(); ++attempt) {
    auto account = account_of(seams, history, *attempt, by);
    if (account.is(Code::unavailable)) return std::move(account).error();
    if (account.ok()) {
      out.account = std::move(account).value();
      return out;
    }
    if (account.is(Code::corrupt) || attempt->commits > 0)
      out.passed_over.push_back(fmt::format("attempt {}: {}", attempt->open.attempt, account.error().what()));
  }
  if (out.passed_over.empty())
    return Error(Code::not_found, "no life of this run has left an account of its saves yet");
  return Error(Code::not_found,
               fmt::format("no account of this run's saves can be read ({}): the next life measures anew",
                           named(out.passed_over)));
}

std::string named(const std::vector<std::string>& passed_over) {
  constexpr std::size_t kMost = 3;
  const auto end = passed_over.begin() + static_cast<std::ptrdiff_t>(std::min(passed_over.size(), kMost));
  std::string out = fmt::format("{}", fmt::join(passed_over.begin(), end, "; "));
  if (passed_over.size() > kMost) out += fmt::format(" and {} more", passed_over.size() - kMost);
  return out;
}

}  // namespace unbroken
