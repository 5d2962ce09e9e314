#include "cli/plan_command.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/plan_flags.h"
#include "os/user/user_file.h"

namespace unbroken {
namespace {

struct Ran {
  int status;
  std::string out, err;
  Json json() const { return parse_json(out).value(); }
};

Ran run(int (*command)(int, char**), std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), command == plan_command ? "plan" : "simulate");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = command(static_cast<int>(arguments.size()), argv.data());
  std::fflush(stdout);
  const std::string out = testing::internal::GetCapturedStdout();
  return {status, out, testing::internal::GetCapturedStderr()};
}
Ran plan(std::vector<std::string> arguments) {
  return run(plan_command, std::move(arguments));
}
Ran simulate_job(std::vector<std::string> arguments) {
  return run(simulate_command, std::move(arguments));
}

std::string file(const std::string& name, std::string_view text) {
  const std::string path = testing::TempDir() + "/" + name;
  EXPECT_TRUE(write_user_file(path, text).ok());
  return path;
}

TEST(PlanCommand, PrintsTextAndJson) {
  const Ran text = plan({"--preset", "llama3"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("87.97 %"), std::string::npos) << text.out;
  const Json json = plan({"--preset", "llama3", "--json"}).json();
  EXPECT_EQ(json["preset"], "llama3");
  EXPECT_NEAR(json["efficiency"].get<double>(), 0.879679, 1e-6);
  EXPECT_EQ(json["inputs"]["gpus"], 16384);
}

TEST(PlanCommand, ListsPresets) {
  const Ran text = plan({"--list-presets"});
  EXPECT_EQ(text.status, 0);
  const Json json = plan({"--list-presets", "--json"}).json();
  EXPECT_EQ(json["presets"].size(), presets().size());
  for (const Preset& preset : presets()) EXPECT_NE(text.out.find(preset.name), std::string::npos);
}

TEST(PlanCommand, LayersPresetFileAndFlags) {
  const std::string config = file("plan.yaml",
                                  "preset: nodes-10y\n"
                                  "stall: 30s\n"
                                  "gpus_per_node: 1\n"
                                  "recovery: 5min  # with a comment\n");
  const Json from_file = plan({"--config", config, "--json"}).json();
  EXPECT_EQ(from_file["inputs"]["nodes"], 10000);
  EXPECT_EQ(from_file["inputs"]["recovery_s"], 300);
  const Json over = plan({"--config", config, "--recovery", "10min", "--json"}).json();
  EXPECT_NEAR(over["efficiency"].get<double>(), 0.938977, 1e-6);
  EXPECT_EQ(plan({"--config", config, "--preset", "bloom", "--json"}).json()["preset"], "bloom");
}

TEST(PlanCommand, ReadsTiersFromFlagsAndFiles) {
  const std::vector<std::string> flags{"--mtti", "3h",
                                       "--tier", "ram:stall=5s,recovers=0.75,recovery=60s",
                                       "--tier", "disk:stall=2min,recovery=15min",
                                       "--json"};
  const Json by_flags = plan(flags).json();
  EXPECT_EQ(by_flags["tiers"][1]["every"], 8);
  const std::string config = file("tiers.yaml",
                                  "mtti: 3h\n"
                                  "tiers:\n"
                                  "  - {name: ram, stall: 5s, recovers: 0.75, recovery: 60s}\n"
                                  "  - disk:stall=2min,recovery=15min\n");
  EXPECT_EQ(plan({"--config", config, "--json"}).json(), by_flags);
}

TEST(PlanCommand, ReadsSwitchesFromFiles) {
  const std::string rest = "state: 1TB\nbandwidth: 10GB/s\nmtti: 3h\n";
  for (const char* word : {"yes", "true", "on", "True"})
    EXPECT_EQ(plan({"--config", file("on.yaml", rest + "sync: " + word + "\n"), "--json"})
                  .json()["inputs"]["stall_s"],
              100)
        << word;
  for (const char* word : {"no", "false", "off"}) {
    const Json inputs =
        plan({"--config", file("off.yaml", rest + "stall: 1s\nsync: " + word + "\n"), "--json"})
            .json()["inputs"];
    EXPECT_EQ(inputs["stall_s"], 1) << word;
    EXPECT_EQ(inputs["persist_s"], 100) << word;
  }
}

TEST(PlanCommand, ReadsAFileOfASpreadsheetOrAnEditor) {
  const std::string config = file("mark.yaml", "\xEF\xBB\xBFpreset: llama3\n");
  EXPECT_EQ(plan({"--config", config, "--json"}).json()["preset"], "llama3");
}

TEST(PlanCommand, DrawsCharts) {
  const std::string svg = testing::TempDir() + "/chart.svg", html = testing::TempDir() + "/chart.html";
  EXPECT_EQ(plan({"--preset", "rsc-1", "--chart", svg}).status, 0);
  EXPECT_TRUE(read_user_file(svg).value().starts_with("<svg"));
  EXPECT_EQ(simulate_job({"--preset", "rsc-1", "--seeds", "2", "--days", "1", "--chart", html}).status, 0);
  EXPECT_NE(read_user_file(html).value().find("<circle"), std::string::npos);
  EXPECT_EQ(plan({"--preset", "rsc-1", "--chart", "x.png"}).status, 78);
  EXPECT_EQ(plan({"--preset", "rsc-1", "--chart", "/dev/full/x.svg"}).status, 78);  // no folder
}

TEST(PlanCommand, RefusesNamingTheFlagWithNoPlan) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> wrong{
      {{"--mtti", "0s", "--stall", "5s"}, "--mtti"},
      {{"--mtti", "12", "--stall", "5s"}, "--mtti"},
      {{"--mtti", "nan", "--stall", "5s"}, "--mtti"},
      {{"--stall", "-1s"}, "--stall"},
      {{"--gpus", "0", "--stall", "5s"}, "--gpus"},
      {{"--gpus", "-1", "--stall", "5s"}, "--gpus"},
      {{"--mtti", "1h", "--node-mtbf", "1y", "--stall", "5s"}, "--mtti"},
      {{"--state", "1TB", "--bandwidth", "0GB/s", "--stall", "5s"}, "--bandwidth"},
      {{"--notice-share", "1", "--stall", "5s"}, "--notice-share"},
      {{"--tier", "disk:stall=5s,recovers=2"}, "--tier disk"},
      {{"--preset", "gpt-9"}, "--preset"},
      {{"--preset", "rsc-1", "--rpo", "10s"}, "--rpo"},
      {{"--config", "/nowhere.yaml"}, "--config"},
      {{"--config", file("bad.yaml", "stall: [1, 2]\n")}, "stall"},
      {{"--config", file("worse.yaml", "a: b: c")}, "--config"},
      {{"--config", file("list.yaml", "- stall\n")}, "--config"},
      {{"--config", file("unknown.yaml", "colour: red\n")}, "--colour"},
      {{"--config", file("twice.yaml", "in-flight: 2\nin_flight: 3\n")}, "in-flight"},
      {{"--config", file("same.yaml", "stall: 1s\nstall: 2s\n")}, "stall"},
      {{"--config", file("key.yaml", "tiers:\n  - {name: ram, stall: 1s, stall: 2s}\n")}, "stall"},
      {{"--config", file("more.yaml", "stall: 1s\n---\nstall: 2s\n")}, "more than one"},
      {{"--config", file("switch.yaml", "stall: 1s\nsync: perhaps\n")}, "sync"},
      {{"--config", file("beside.yaml", "stall: 1s\ntiers:\n  - ram:stall=1s\n")}, "--stall"},
      {{"--config", ""}, "--config"},
      {{"--preset", ""}, "--preset"},
      {{"--preset", "rsc-1", "--chart", ""}, "--chart"},
      {{"--preset", "rsc-1", "--chart", "/is/missing/x.svg"}, "--chart"},
      {{"--config", file("unit.yaml", "stall: 5\n")}, "--stall"},
      {{"--colour", "red"}, "--colour"},
      {{"--stall"}, "--stall"},
      {{"--stall", "1s", "--stall", "2s"}, "--stall"}};
  for (const auto& [arguments, names] : wrong) {
    const Ran ran = plan(arguments);
    EXPECT_EQ(ran.status, 78) << names << ran.err;
    EXPECT_EQ(ran.out, "") << names;
    EXPECT_NE(ran.err.find(names), std::string::npos) << ran.err;
    std::vector<std::string> asked = arguments;
    asked.insert(asked.begin(), "--json");
    const Json json = plan(asked).json();
    EXPECT_EQ(json["error"]["kind"], "Misconfigured");
    EXPECT_EQ(json["error"]["exit_code"], 78);
    EXPECT_TRUE(json["error"].contains("next_command"));
  }
}

TEST(PlanCommand, HelpsWithEveryFlag) {
  const Ran ran = plan({"--help"});
  EXPECT_EQ(ran.status, 0);
  for (const Flag& flag : plan_flags())
    EXPECT_NE(ran.out.find("--" + std::string(flag.name)), std::string::npos);
}

TEST(SimulateCommand, PrintsTheKeysAndAgrees) {
  const Json json =
      simulate_job({"--preset", "h100-100k-async", "--seeds", "5", "--days", "2", "--json"}).json();
  for (const char* key : {"inputs", "first_save", "interval_s", "seeds", "simulated_s", "efficiency", "ettr",
                          "failures", "lost_gpu_hours", "waste", "elapsed_s"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (const char* key : {"efficiency", "ettr", "failures", "lost_gpu_hours"})
    for (const char* part : {"mean", "stderr", "ci95"}) EXPECT_TRUE(json[key].contains(part)) << key << part;
  EXPECT_EQ(json["seeds"], 5);
  EXPECT_EQ(json["simulated_s"], 172800);
  EXPECT_NEAR(json["efficiency"]["mean"].get<double>(), 0.765, 0.02);
}

TEST(SimulateCommand, GivesTheSameBytesForAnyThreads) {
  std::vector<std::string> all;
  for (const char* threads : {"1", "2", "7"}) {
    Json json = simulate_job({"--preset", "rsc-1", "--seeds", "9", "--days", "3", "--correlated", "0.1",
                              "--law", "weibull", "--shape", "0.8", "--threads", threads, "--json"})
                    .json();
    json.erase("elapsed_s");
    all.push_back(json.dump());
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

TEST(SimulateCommand, FollowsATrace) {
  const std::string trace = file("trace.csv", "node,time_s\na,3600\nb,7200\nc,7200\n");
  const Json json =
      simulate_job({"--preset", "textbook-12h", "--trace", trace, "--days", "1", "--seeds", "2", "--json"})
          .json();
  EXPECT_EQ(json["failures"]["mean"], 3);
  EXPECT_EQ(json["efficiency"]["stderr"], 0);
  ASSERT_EQ(json["warnings"].size(), 1U);
  EXPECT_EQ(json["warnings"][0]["code"], "trace-mtti");
  const Ran cut = simulate_job({"--preset", "textbook-12h", "--trace", trace, "--days", "0.05"});
  EXPECT_NE(cut.out.find("2 of the 3 lives in the trace end after --days 0.05"), std::string::npos)
      << cut.out;
}

TEST(SimulateCommand, RefusesNamingTheFlag) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> wrong{
      {{"--seeds", "0"}, "--seeds"},
      {{"--seed", "-1"}, "--seed"},
      {{"--threads", "0"}, "--threads"},
      {{"--law", "normal"}, "--law"},
      {{"--law", "weibull"}, "--shape"},
      {{"--law", "weibull", "--shape", "0"}, "--shape"},
      {{"--law", "weibull", "--shape", "nan"}, "--shape"},
      {{"--shape", "2"}, "--shape"},
      {{"--correlated", "1"}, "--correlated"},
      {{"--correlated", "-0.5"}, "--correlated"},
      {{"--first-save", "20"}, "--first-save"},
      {{"--first-save", "inf"}, "--first-save"},
      {{"--first-stall", "1s"}, "--first-save"},
      {{"--stragglers", ""}, "--stragglers"},
      {{"--straggler-slowdown", "0.5"}, "--stragglers"},
      {{"--straggler-lasts", "2h"}, "--stragglers"},
      {{"--slow-write-factor", "7"}, "--slow-writes"},
      {{"--trace", file("misspelt.csv", "time_s,recovery\n1000,500\n")}, "recovery"},
      {{"--trace", "/nowhere.csv"}, "--trace"},
      {{"--trace", ""}, "--trace"},
      {{"--trace", file("unsorted.csv", "time_s\n2\n1\n")}, "--trace"},
      {{"--trace", file("headless.csv", "1\n2\n")}, "--trace"},
      {{"--days", "0"}, "--days"},
      {{"--gpus", "900000000", "--gpus-per-node", "1"}, "--gpus"}};
  for (const auto& [arguments, names] : wrong) {
    std::vector<std::string> all{"--preset", "textbook-12h"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Ran ran = simulate_job(all);
    EXPECT_EQ(ran.status, 78) << names << ran.err;
    EXPECT_EQ(ran.out, "") << names;
    EXPECT_NE(ran.err.find(names), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace unbroken
