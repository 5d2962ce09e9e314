#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/text.h"
#include "planner/chart.h"
#include "planner/test_plan.h"

namespace unbroken {
namespace {

Plan of_preset(std::string_view name, Values values = {}) {
  return plan(std::move(values), {}, name).value();
}

TEST(Plan, GivesThePresetsTheirVectors) {
  const Plan textbook = of_preset("textbook-12h");
  EXPECT_NEAR(textbook.saves.young_s, 3219.94, 0.01);
  EXPECT_NEAR(textbook.saves.daly_s, 3140.43, 0.01);
  EXPECT_NEAR(textbook.saves.interval_s, 3140.44, 0.01);
  EXPECT_NEAR(textbook.efficiency, 0.927305, 1e-6);
  EXPECT_EQ(textbook.saves.bound_by, BoundBy::optimum);
  EXPECT_NEAR(of_preset("nodes-10y").efficiency, 0.967170, 1e-6);
  EXPECT_NEAR(of_preset("h100-100k-sync").efficiency, 0.778723, 1e-6);
  EXPECT_NEAR(of_preset("h100-100k-async").efficiency, 0.765032, 1e-6);
  EXPECT_NEAR(of_preset("llama3").efficiency, 0.879679, 1e-6);
  EXPECT_NEAR(of_preset("bloom").efficiency, 0.988543, 1e-6);
  EXPECT_NEAR(of_preset("rsc-1").job.mtti_s / 3600, 1.8029, 1e-4);
  EXPECT_NEAR(of_preset("rsc-2").job.mtti_s / 3600, 5.0080, 1e-4);
  EXPECT_NEAR(of_preset("bloom").failures_per_1000_node_days, 1000 / (48 * 7.0), 1e-9);
}

TEST(Plan, LetsFlagsOverrideAPreset) {
  EXPECT_NEAR(of_preset("textbook-12h", {{"recovery", "300s"}}).efficiency, 0.920887, 1e-6);
  EXPECT_NEAR(of_preset("nodes-10y", {{"gpus-per-node", "1"}}).efficiency, 0.898031, 1e-6);
  EXPECT_EQ(of_preset("nodes-10y", {{"mtti", "1h"}}).job.mtti_s, 3600);  // and not both
  EXPECT_NEAR(
      of_preset("h100-100k-sync", {{"failures-per-1000-node-days", "6.5"}, {"recovery", "2min"}}).efficiency,
      0.246247, 1e-6);
}

TEST(Plan, SaysWhatIsNotViable) {
  const Plan p = of_preset("h100-100k-sync", {{"failures-per-1000-node-days", "6.5"}, {"recovery", "2min"}});
  EXPECT_FALSE(p.is_viable);
  EXPECT_TRUE(warns(p, "not-viable"));
  EXPECT_TRUE(warns(p, "young-beyond-mtti"));
  EXPECT_TRUE(warns(p, "one-writer"));
  EXPECT_TRUE(warns(p, "ettr-domain"));
  EXPECT_NE(plan_text(p).find("delta/M 0.56"), std::string::npos) << plan_text(p);
  EXPECT_NE(plan_text(p).find("one writer: 0.83 GB/s"), std::string::npos) << plan_text(p);
  EXPECT_TRUE(of_preset("textbook-12h").is_viable);
  EXPECT_FALSE(warns(of_preset("bloom"), "one-writer"));
}

TEST(Plan, HoldsTheFloor) {
  const Plan p = of_preset("h100-100k-async", {{"persist", "600s"}});
  EXPECT_EQ(p.saves.bound_by, BoundBy::floor);
  EXPECT_EQ(p.saves.interval_s, 595);
  EXPECT_NEAR(p.efficiency, 0.375011, 1e-6);
  EXPECT_NEAR(p.efficiency_exact, 0.460404, 1e-6);
  EXPECT_TRUE(warns(p, "floor"));
  const Plan six = of_preset("h100-100k-async", {{"persist", "600s"}, {"in-flight", "6"}});
  EXPECT_EQ(six.saves.bound_by, BoundBy::optimum);
  EXPECT_NEAR(six.efficiency, 0.460404, 1e-6);
}

TEST(Plan, KeepsAPromiseOrRefusesIt) {
  const Plan p = of_preset("textbook-12h", {{"rpo", "10min"}});
  EXPECT_EQ(p.saves.bound_by, BoundBy::rpo);
  EXPECT_NEAR(p.saves.max_lost_s(), 600, 1e-9);
  EXPECT_TRUE(warns(p, "rpo"));
  const auto refused = plan({{"rpo", "10min"}, {"persist", "600s"}}, {}, "h100-100k-async");
  ASSERT_TRUE(refused.is(Code::bad_argument));
  EXPECT_NE(refused.error().what().find("--rpo"), std::string::npos);
  EXPECT_NE(refused.error().what().find("floor"), std::string::npos);
  EXPECT_TRUE(plan({{"rpo", "10min"}, {"interval", "1h"}}, {}, "textbook-12h").is(Code::bad_argument));
}

TEST(Plan, EvaluatesAGivenInterval) {
  const Plan p = of_preset("textbook-12h", {{"interval", "1h"}});
  EXPECT_EQ(p.saves.bound_by, BoundBy::given);
  EXPECT_EQ(p.saves.interval_s, 3600);
  EXPECT_LT(p.efficiency, p.efficiency_exact);
  EXPECT_TRUE(warns(of_preset("h100-100k-async", {{"interval", "10s"}}), "floor"));
}

TEST(Plan, IsFiniteWithoutFailures) {
  for (const Values& values : {Values{{"mtti", "inf"}}, Values{{"failures-per-1000-node-days", "0"}}}) {
    const Plan p = of_preset("textbook-12h", values);
    EXPECT_EQ(p.saves.bound_by, BoundBy::no_failures);
    EXPECT_EQ(p.saves.interval_s, 3600);
    EXPECT_EQ(p.failures, 0);
    EXPECT_EQ(p.p_none, 1);
    EXPECT_NEAR(p.efficiency + p.waste.sum(), 1, 1e-12);
    EXPECT_TRUE(p.is_viable);
    const Json json = to_json(p);
    for (const char* key : {"young_s", "daly_s", "exact_s", "floor_s", "chosen_s", "period_s"})
      EXPECT_TRUE(json["interval"][key].is_number()) << key;
    EXPECT_EQ(json["mtti_s"], "Infinity");
  }
  const Plan promised = of_preset("textbook-12h", {{"mtti", "inf"}, {"rpo", "20min"}});
  EXPECT_EQ(promised.saves.bound_by, BoundBy::rpo);
  EXPECT_EQ(promised.saves.interval_s, 1080);
}

TEST(Plan, CountsMoneyStorageAndLoss) {
  const Plan p = of_preset("nodes-10y", {{"gpu-hour-usd", "2"}, {"state", "1TB"}, {"gb-month-usd", "0.02"}});
  EXPECT_NEAR(p.failures, 10.27, 0.01);
  EXPECT_NEAR(p.lost_gpu_hours, (1 - p.efficiency) * 7.2e6, 1);
  EXPECT_NEAR(*p.lost_usd, 2 * p.lost_gpu_hours, 1);
  EXPECT_EQ(*p.storage_bytes, 4e12);  // three kept and one in flight
  EXPECT_NEAR(*p.storage_usd_per_month, 80, 1e-9);
  EXPECT_FALSE(of_preset("nodes-10y").storage_bytes.has_value());
  EXPECT_NEAR(of_preset("nodes-10y", {{"days", "1"}}).p_none, 0.7100, 1e-4);
  const Plan async =
      plan({{"mtti", "1h"}, {"stall", "1s"}, {"persist", "120s"}, {"interval", "299s"}}).value();
  EXPECT_EQ(async.saves.mean_lost_s(), 270);
  EXPECT_EQ(async.saves.max_lost_s(), 420);
}

TEST(Plan, TakesTheWriteTimeFromBandwidth) {
  const Plan behind = plan({{"mtti", "1h"},
                            {"stall", "1s"},
                            {"params", "405B"},
                            {"bytes-per-param", "16"},
                            {"bandwidth", "2TB/s"},
                            {"writers", "100"},
                            {"writer-bandwidth", "1GB/s"}})
                          .value();
  EXPECT_EQ(*behind.job.state_bytes, 6.48e12);
  EXPECT_EQ(*behind.job.write_bytes_per_s, 1e11);
  EXPECT_NEAR(behind.job.persist_s, 64.8, 1e-9);
  EXPECT_EQ(behind.job.stall_s, 1);
  EXPECT_NEAR(behind.saves.floor_s, 63.8, 1e-9);
  const Plan sync =
      plan({{"mtti", "1h"}, {"sync", "true"}, {"state", "6.48TB"}, {"bandwidth", "2TB/s"}}).value();
  EXPECT_NEAR(sync.job.stall_s, 3.24, 1e-9);
  EXPECT_EQ(sync.job.persist_s, 0);
  EXPECT_EQ(sync.saves.floor_s, 0);
  EXPECT_TRUE(warns(plan({{"gpus", "64"},
                          {"mtti", "1h"},
                          {"stall", "1s"},
                          {"state", "1TB"},
                          {"writers", "1"},
                          {"writer-bandwidth", "3GB/s"}})
                        .value(),
                    "one-writer"));
}

TEST(Plan, GivesTiersTheirIntervals) {
  const Plan p = plan({{"mtti", "3h"}}, {"ram:stall=5s,persist=0s,recovers=0.75,recovery=60s",
                                         "disk:stall=120s,persist=0s,recovers=1,recovery=900s"})
                     .value();
  const Json json = to_json(p);
  EXPECT_NEAR(json["tiers"][0]["interval_s"].get<double>(), 379.47, 0.04);
  EXPECT_NEAR(json["tiers"][1]["interval_s"].get<double>(), 3219.94, 0.3);
  EXPECT_EQ(json["tiers"][1]["every"], 8);
  EXPECT_NEAR(p.efficiency, 0.882, 0.0024);
  EXPECT_NEAR(p.efficiency_first_order, 0.876, 2e-3);
  EXPECT_NEAR(p.efficiency + p.waste.sum(), 1, 1e-9);
}

TEST(Plan, GivesALongWriteItsTurnMoreRarely) {
  const Plan p =
      plan({{"mtti", "1h"}}, {"ram:stall=1s,recovers=0.5", "store:stall=2s,persist=10min"}).value();
  EXPECT_GE(static_cast<double>(p.saves.tiers[1].interval.every) * p.saves.period_s, 600);
  const Plan promised =
      plan({{"mtti", "3h"}, {"rpo", "30min"}}, {"ram:stall=5s,recovers=0.75", "disk:stall=120s,persist=1min"})
          .value();
  EXPECT_LE(promised.saves.max_lost_s(), 1800);
  EXPECT_GT(promised.saves.tiers[1].interval.every, 1u);
}

TEST(Plan, SaysThatNothingFails) {
  for (const Values& values :
       {Values{{"mtti", "inf"}, {"stall", "5s"}}, Values{{"mtti", "inf"}, {"stall", "5s"}, {"rpo", "10min"}},
        Values{{"failures-per-1000-node-days", "0"}, {"stall", "5s"}}}) {
    const Plan p = plan(values).value();
    const std::string text = plan_text(p);
    EXPECT_EQ(text.find(" inf"), std::string::npos) << text;
    EXPECT_NE(text.find("no optimum, as nothing fails"), std::string::npos) << text;
    EXPECT_EQ(chart_svg(p, {}).find(" inf"), std::string::npos);
    EXPECT_NEAR(p.saves.interval_s, values.contains("rpo") ? 595 : 3600, 1e-9);
  }
}

TEST(Plan, WarnsWhereTheLastTierTakesMoreThanWasSaid) {
  const auto tiers = [](const char* last) {
    return Tiers{"ram:stall=1s,recovers=0.75", std::string("disk:stall=9s,recovers=") + last};
  };
  EXPECT_TRUE(warns(plan({{"mtti", "1h"}}, tiers("0.9")).value(), "last-tier"));
  EXPECT_FALSE(warns(plan({{"mtti", "1h"}}, tiers("1")).value(), "last-tier"));
  EXPECT_FALSE(warns(plan({{"mtti", "1h"}}, tiers("0.25")).value(), "last-tier")) << "its own share";
}

TEST(Plan, UsesNoticesThatFit) {
  const Values job{{"mtti", "1h"},  {"stall", "500ms"}, {"persist", "80s"},
                   {"step", "20s"}, {"commit", "2s"},   {"notice-share", "0.5"}};
  Values fits = job, fails = job;
  fits["notice"] = "120s";
  fails["notice"] = "30s";
  const Plan with = plan(fits).value(), without = plan(fails).value();
  EXPECT_NEAR(with.notices[0].needs_s, 102.5, 1e-9);
  EXPECT_TRUE(with.notices[0].fits);
  EXPECT_FALSE(without.notices[0].fits);
  EXPECT_GT(with.efficiency, without.efficiency);
  EXPECT_TRUE(warns(without, "notice"));
  EXPECT_NEAR(with.saves.young_s, std::sqrt(2 * 0.5 * 7200), 1e-9);
  bool has_aws = false;
  for (const NoticeFit& n : with.notices) has_aws |= n.name == "aws-spot" && n.fits;
  EXPECT_TRUE(has_aws);
}

TEST(Plan, SavesInTheSafestTierOnNotice) {
  const Tiers tiers{"ram:stall=1s,persist=2s,recovers=0.8,recovery=30s",
                    "store:stall=5s,persist=1min,recovers=1,recovery=5min"};
  const Values job{{"mtti", "1h"}, {"step", "3s"}, {"commit", "2s"}, {"notice-share", "0.5"}};
  Values fits = job, fails = job;
  fits["notice"] = "78s";
  fails["notice"] = "77s";
  const Plan with = plan(fits, tiers).value(), without = plan(fails, tiers).value();
  EXPECT_NEAR(with.notices[0].needs_s, 3 + 5 + 60 + 2, 1e-9);
  EXPECT_TRUE(with.notices[0].fits);
  EXPECT_TRUE(warns(without, "notice"));
  EXPECT_GT(with.efficiency, without.efficiency);
  // No failure needs the last one.
  const Tiers spare{tiers[0], tiers[1], "archive:stall=1min,persist=1h,recovery=1h"};
  EXPECT_NEAR(plan(fits, spare).value().notices[0].needs_s, 70, 1e-9);
}

TEST(Plan, NamesWhatToImproveFirst) {
  const Plan p = plan({{"gpus", "100000"},
                       {"failures-per-1000-node-days", "6.5"},
                       {"stall", "500ms"},
                       {"persist", "30s"},
                       {"recovery", "2min"}})
                     .value();
  ASSERT_FALSE(p.sensitivity.empty());
  std::vector<std::string> order;
  for (const Sensitivity& s : p.sensitivity)
    if (s.parameter != "mtti") order.push_back(s.parameter);
  EXPECT_EQ(order, (std::vector<std::string>{"recovery", "persist", "stall"}));
  for (std::size_t i = 1; i < p.sensitivity.size(); ++i)
    EXPECT_GE(p.sensitivity[i - 1].efficiency_gain, p.sensitivity[i].efficiency_gain);
}

TEST(Plan, ImprovesWithinThePromiseAndTheInterval) {
  for (const Values& bound : {Values{{"rpo", "10min"}}, Values{{"interval", "2min"}}}) {
    Values job{
        {"mtti", "1d"}, {"stall", "1min"}, {"in-flight", "4"}, {"recovery", "5min"}, {"persist", "8min"}};
    job.insert(bound.begin(), bound.end());
    const Plan p = plan(job).value();
    for (const Sensitivity& s : p.sensitivity) {
      Values better = job;
      better[s.parameter] = std::map<std::string, std::string>{
          {"mtti", "2d"}, {"stall", "30s"}, {"recovery", "150s"}, {"persist", "4min"}}[s.parameter];
      EXPECT_NEAR(s.efficiency_gain, plan(better).value().efficiency - p.efficiency, 1e-9) << s.parameter;
    }
    EXPECT_NE(p.sensitivity.at(0).parameter, "mtti");
  }
}

TEST(Plan, HasEveryKey) {
  const Json json = to_json(of_preset("h100-100k-async"));
  for (const char* key : {"preset", "inputs", "mtti_s", "failures_per_1000_node_days", "interval",
                          "efficiency", "efficiency_at", "ettr", "viable", "waste", "expected", "storage",
                          "tiers", "notice", "warnings", "sensitivity"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (const char* key : {"gpus", "nodes", "mtti_s", "stall_s", "persist_s", "recovery_s", "slowdown",
                          "in_flight", "state_bytes", "write_bytes_per_s"})
    EXPECT_TRUE(json["inputs"].contains(key)) << key;
  for (const char* key : {"young_s", "daly_s", "exact_s", "floor_s", "chosen_s", "period_s", "bound_by"})
    EXPECT_TRUE(json["interval"].contains(key)) << key;
  for (const char* key : {"failures", "p_none", "lost_gpu_hours", "lost_usd", "max_lost_s", "mean_lost_s"})
    EXPECT_TRUE(json["expected"].contains(key)) << key;
  double sum = 0;
  for (const auto& [key, part] : json["waste"].items()) sum += part.get<double>();
  EXPECT_NEAR(sum, 1 - json["efficiency"].get<double>(), 1e-3);
  EXPECT_TRUE(warns(plan({{"gpus", "64"}, {"stall", "5s"}}).value(), "prior-assumed"));
}

struct Refusal {
  Values values;
  std::vector<std::string> tiers;
  const char* names;
};

TEST(Plan, RefusesNonsenseNamingTheFlag) {
  const std::vector<Refusal> refusals{
      {{{"mtti", "0s"}}, {}, "--mtti"},
      {{{"mtti", "-1h"}}, {}, "--mtti"},
      {{{"mtti", "nans"}}, {}, "--mtti"},
      {{{"mtti", "nan"}}, {}, "--mtti"},
      {{{"mtti", "12"}}, {}, "--mtti"},
      {{{"mtti", ""}}, {}, "--mtti"},
      {{{"node-mtbf", "0y"}}, {}, "--node-mtbf"},
      {{{"failures-per-1000-node-days", "-3"}}, {}, "--failures-per-1000-node-days"},
      {{{"failures-per-1000-node-days", "nan"}}, {}, "--failures-per-1000-node-days"},
      {{{"failures-per-1000-node-days", "inf"}}, {}, "--failures-per-1000-node-days"},
      {{{"failures-per-1000-node-days", "3/day"}}, {}, "--failures-per-1000-node-days"},
      {{{"stall", "-1s"}}, {}, "--stall"},
      {{{"stall", "5"}}, {}, "--stall"},
      {{{"stall", "inf"}}, {}, "--stall"},
      {{{"stall", "0s"}}, {}, "--stall"},
      {{{"persist", "-1s"}}, {}, "--persist"},
      {{{"recovery", "-5min"}}, {}, "--recovery"},
      {{{"recovery", "5min"}, {"load", "1min"}}, {}, "--recovery"},
      {{{"slowdown", "1"}}, {}, "--slowdown"},
      {{{"slowdown", "-0.1"}}, {}, "--slowdown"},
      {{{"slowdown", "0.6"}, {"in-flight", "2"}}, {}, "--slowdown"},
      {{{"in-flight", "0"}}, {}, "--in-flight"},
      {{{"in-flight", "1.5"}}, {}, "--in-flight"},
      {{{"gpus", "0"}}, {}, "--gpus"},
      {{{"gpus", "-8"}}, {}, "--gpus"},
      {{{"gpus", "99999999999999999999"}}, {}, "--gpus"},
      {{{"gpus-per-node", "0"}}, {}, "--gpus-per-node"},
      {{{"state", "0GB"}}, {}, "--state"},
      {{{"state", "500"}}, {}, "--state"},
      {{{"state", "-5GB"}}, {}, "--state"},
      {{{"state", "1e300PB"}}, {}, "--state"},
      {{{"params", "405B"}}, {}, "--params"},
      {{{"bytes-per-param", "16"}}, {}, "--bytes-per-param"},
      {{{"params", "1e300"}, {"bytes-per-param", "1e300"}}, {}, "--params"},
      {{{"params", "405B"}, {"bytes-per-param", "16"}, {"state", "1TB"}}, {}, "--state"},
      {{{"state", "1TB"}, {"bandwidth", "0GB/s"}}, {}, "--bandwidth"},
      {{{"state", "1TB"}, {"bandwidth", "-1GB/s"}}, {}, "--bandwidth"},
      {{{"state", "1TB"}, {"bandwidth", "1GB"}}, {}, "--bandwidth"},
      {{{"bandwidth", "1GB/s"}}, {}, "--bandwidth"},
      {{{"state", "1TB"}, {"writer-bandwidth", "0B/s"}}, {}, "--writer-bandwidth"},
      {{{"state", "1TB"}, {"writers", "0"}, {"writer-bandwidth", "1GB/s"}}, {}, "--writers"},
      {{{"stall", "5s"}, {"sync", "true"}, {"state", "1TB"}, {"bandwidth", "1GB/s"}}, {}, "--sync"},
      {{{"notice-share", "1"}}, {}, "--notice-share"},
      {{{"notice-share", "-0.1"}}, {}, "--notice-share"},
      {{{"notice", "0s"}}, {}, "--notice"},
      {{{"step", "-1s"}}, {}, "--step"},
      {{{"commit", "-1s"}}, {}, "--commit"},
      {{{"rpo", "0s"}}, {}, "--rpo"},
      {{{"rpo", "-1min"}}, {}, "--rpo"},
      {{{"rpo", "2s"}}, {}, "--rpo"},
      {{{"interval", "0s"}}, {}, "--interval"},
      {{{"interval", "inf"}}, {}, "--interval"},
      {{{"days", "0"}}, {}, "--days"},
      {{{"days", "1e9"}}, {}, "--days"},
      {{{"gpu-hour-usd", "-2"}}, {}, "--gpu-hour-usd"},
      {{{"gb-month-usd", "-2"}}, {}, "--gb-month-usd"},
      {{{"keep-last", "0"}}, {}, "--keep-last"},
      {{{"mtti", "1h"}, {"node-mtbf", "1y"}}, {}, "--mtti"},
      {{{"nonsense", "1"}}, {}, "--nonsense"},
      {{}, {"disk"}, "--tier"},
      {{}, {":stall=5s"}, "--tier"},
      {{}, {"disk:stall=5"}, "--tier disk"},
      {{}, {"disk:stall=0s"}, "--tier disk"},
      {{}, {"disk:stall=-1s"}, "--tier disk"},
      {{}, {"disk:persist=5s"}, "--tier disk"},
      {{}, {"disk:stall=5s,recovers=0"}, "--tier disk"},
      {{}, {"disk:stall=5s,recovers=1.1"}, "--tier disk"},
      {{}, {"disk:stall=5s,recovers=nan"}, "--tier disk"},
      {{}, {"disk:stall=5s,price=-1"}, "--tier disk"},
      {{}, {"disk:stall=5s,colour=red"}, "--tier disk"},
      {{}, {"disk:stall=5s,persist"}, "--tier disk"}};
  for (const Refusal& r : refusals) {
    Values values = r.values;
    const bool says_stall = values.count("stall") > 0 || values.count("sync") > 0 || !r.tiers.empty();
    if (!says_stall) values["stall"] = "5s";
    const auto refused = plan(values, r.tiers);
    ASSERT_TRUE(refused.is(Code::bad_argument)) << r.names << " " << testing::PrintToString(values);
    EXPECT_NE(refused.error().what().find(r.names), std::string::npos)
        << refused.error().what() << " should name " << r.names;
  }
  const auto unknown = plan({}, {}, "gpt-9");
  ASSERT_TRUE(unknown.is(Code::bad_argument));
  EXPECT_NE(unknown.error().what().find("rsc-1"), std::string::npos);
}

TEST(Plan, StandsExtremes) {
  for (const Values& values :
       {Values{{"mtti", "1ns"}, {"stall", "1y"}}, Values{{"mtti", "1e9y"}, {"stall", "1ns"}},
        Values{{"mtti", "1s"}, {"stall", "1s"}, {"recovery", "1y"}},
        Values{{"mtti", "1h"}, {"persist", "1h"}},
        Values{{"gpus", "1000000000"}, {"gpus-per-node", "1"}, {"stall", "1s"}}}) {
    const auto p = plan(values);
    if (!p.ok()) continue;  // refused: also an answer
    EXPECT_TRUE(std::isfinite(p.value().efficiency)) << testing::PrintToString(values);
    EXPECT_NEAR(p.value().efficiency + p.value().waste.sum(), 1, 1e-3) << testing::PrintToString(values);
    EXPECT_EQ(to_json(p.value()).dump().find("null,\"daly"), std::string::npos);
  }
}

TEST(Plan, WritesAPresetsStateAtItsRate) {
  // 500 GB in 10 minutes, while the accelerators wait.
  const auto stall_s = [](const Values& values) {
    return plan(values, {}, "h100-100k-sync").value().job.stall_s;
  };
  EXPECT_EQ(stall_s({}), 600);
  EXPECT_NEAR(stall_s({{"state", "6TB"}}), 7200, 1e-6);
  EXPECT_NEAR(stall_s({{"params", "1e12"}, {"bytes-per-param", "1"}}), 1200, 1e-6);
  EXPECT_NEAR(stall_s({{"bandwidth", "2TB/s"}}), 0.25, 1e-9);
  EXPECT_NEAR(stall_s({{"state", "6TB"}, {"writers", "6"}, {"writer-bandwidth", "1GB/s"}}), 1000, 1e-6);
  EXPECT_EQ(stall_s({{"state", "6TB"}, {"stall", "5s"}}), 5);
  EXPECT_EQ(plan({{"bandwidth", "2TB/s"}}, {}, "h100-100k-sync").value().job.persist_s, 0);
  EXPECT_NEAR(plan({{"state", "4.6TB"}}, {}, "bloom").value().job.stall_s, 80, 1e-6);
  // In a minute behind the training.
  const JobInputs behind = plan({{"state", "1TB"}}, {}, "h100-100k-async").value().job;
  EXPECT_EQ(behind.stall_s, 5);
  EXPECT_NEAR(behind.persist_s, 120, 1e-6);
  EXPECT_NEAR(plan({{"bandwidth", "50GB/s"}}, {}, "h100-100k-async").value().job.persist_s, 10, 1e-6);
  EXPECT_EQ(plan({{"persist", "7s"}, {"state", "1TB"}}, {}, "h100-100k-async").value().job.persist_s, 7);
}

TEST(Plan, RefusesWritersWithoutARate) {
  const auto refused = plan({{"stall", "5s"}, {"state", "1TB"}, {"writers", "4"}});
  ASSERT_TRUE(refused.is(Code::bad_argument));
  EXPECT_TRUE(refused.error().what().starts_with("--writers")) << refused.error().what();
}

}  // namespace
}  // namespace unbroken
