// `unbroken explain`: why a run saves as often as it does, with the numbers of that run.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "cadence/explain.h"
#include "cli/command.h"
#include "cli/look.h"
#include "cli/plan_command.h"
#include "engine/pace/account.h"
#include "engine/start/owner.h"

namespace unbroken {

namespace {

/// What the plan does not count yet.
std::string ending_of(const Look& look, const Account& account) {
  const Attempt* newest = look.history().newest_attempt();
  if (newest == nullptr || newest->slot != account.open_slot || account.is_closed) return "";
  if (liveness_of_owner(look.seams(), *newest) != Liveness::dead) return "";
  return "; this life has ended without a close: what it lost counts from the next start on";
}

std::string earlier_of(const KeptPromises& promises) {
  std::string out;
  if (promises.breaks > 0)
    out = fmt::format("; rpo was not kept {} time{} in earlier lives: up to {} would have been lost",
                      promises.breaks, promises.breaks == 1 ? "" : "s", format_duration(promises.exposed_s));
  if (promises.unseen_s > 0)
    out += fmt::format("; a life that ended without a close lost at least {}, more than its rpo",
                       format_duration(promises.unseen_s));
  return out;
}

std::string newer_of(const LastAccount& last) {
  if (last.passed_over.empty()) return "";
  return fmt::format("; this is what attempt {} went by, as nothing can be told of newer ones: {}",
                     last.account.attempt, named(last.passed_over));
}

Result<> explain(const std::string& directory, bool is_json) {
  UNBROKEN_TRY(const Look look, look_at(directory));
  const auto last = read_account(look.seams(), look.history(), look.by());
  if (!last.ok()) return pointing_to_list(last.error(), directory);
  const Account& account = last.value().account;
  if (account.plan.saves == 0)
    return pointing_to_list(Error(Code::not_found, "no save of this run was made and measured yet"),
                            directory);
  const CadencePlan& plan = account.plan;
  const KeptPromises earlier = read_promises(look.seams(), look.history(), look.by());
  Json json = explain_json(plan, account.mtti_ci95);
  json["promise_breaks"] = plan.breaks + earlier.breaks;
  json["exposed_s"] = json_number(std::max(plan.exposed_s, earlier.exposed_s));
  json["unseen_s"] = json_number(earlier.unseen_s);
  json["attempt"] = account.attempt;
  json["passed_over"] = last.value().passed_over;
  json["text"] = json["text"].get<std::string>() + earlier_of(earlier) + ending_of(look, account) +
                 newer_of(last.value());
  if (is_json) return print_json(json);
  return print(json["text"].get<std::string>() + "\n");
}

}  // namespace

int explain_command(int argc, char** argv) {
  CLI::App app("Why a run saves as often as it does, in its own numbers", "unbroken explain");
  std::string directory;
  bool is_json = false;
  app.add_option("DIR", directory, "the run's directory")->required();
  app.add_flag("--json", is_json, "one JSON object");
  return run_command(app, argc, argv, [&]() -> Result<int> {
    UNBROKEN_DO(explain(directory, is_json));
    return 0;
  });
}

}  // namespace unbroken
