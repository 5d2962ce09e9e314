#include "unbroken/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "os/test_support.h"

namespace unbroken {
namespace {

using testing::HasSubstr;

/// A program that trains, in a directory that outlives it.
struct Program {
  explicit Program(const std::string& directory, RunOptions options = {.every = "1"})
      : run(Session::open(directory, std::move(options)).value()) {
    EXPECT_TRUE(
        run.attach("model", {contiguous_view("w", DType::f32, {weights.size()}, weights.data())}).ok());
  }
  Result<> step(std::uint64_t completed) {
    std::iota(weights.begin(), weights.end(), static_cast<float>(completed));
    return run.step(completed, {{"loss", 1.0}});
  }
  std::vector<float> weights = std::vector<float>(1000);
  Session run;
};

TEST(Session, GoesOnWhereTheLastOneEnded) {
  const TemporaryDirectory folder;
  {
    Program first(folder / "run");
    EXPECT_EQ(first.run.restore().value(), 0u);
    for (std::uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(first.step(step).ok());
    ASSERT_TRUE(first.run.close().ok());
    EXPECT_EQ(first.run.newest(), "5.a1");
    ASSERT_TRUE(first.run.close().ok()) << "twice";
  }
  Program second(folder / "run");
  EXPECT_EQ(second.run.restore().value(), 5u);
  EXPECT_EQ(second.weights[7], 12.0f);
}

TEST(Session, SavesWhenAsked) {
  const TemporaryDirectory folder;
  Program program(folder / "run", {.every = "100"});
  ASSERT_TRUE(program.run.restore().ok());
  EXPECT_TRUE(program.run.save().is(Code::bad_argument)) << "no step has a name yet";
  ASSERT_TRUE(program.step(1).ok());
  ASSERT_TRUE(program.step(2).ok());
  EXPECT_EQ(program.run.save().value(), "2.a1");
  EXPECT_EQ(program.run.save().value(), "2.a1");
  EXPECT_EQ(program.run.newest(), "2.a1");
}

TEST(Session, RefusesCallsInTheWrongOrder) {
  const TemporaryDirectory folder;
  Program program(folder / "run");
  EXPECT_TRUE(program.step(1).is(Code::bad_argument)) << "before restore()";
  EXPECT_TRUE(program.run.save().is(Code::bad_argument));
  EXPECT_TRUE(program.run.close().ok());
  std::vector<float> more(3);
  EXPECT_TRUE(program.run.attach("model", {}).is(Code::bad_argument)) << "a name twice";
  ASSERT_TRUE(program.run.restore().ok());
  EXPECT_TRUE(program.run.restore().is(Code::bad_argument)) << "twice";
  EXPECT_TRUE(
      program.run.attach("late", {contiguous_view("w", DType::f32, {3}, more.data())}).is(Code::bad_argument))
      << "it would train on what was never restored";
  ASSERT_TRUE(program.step(3).ok());
  EXPECT_TRUE(program.step(3).is(Code::bad_argument));
  EXPECT_TRUE(program.run.step(4, {{"step", 1.0}}).is(Code::bad_argument));
  EXPECT_TRUE(program.step(2).is(Code::bad_argument));
  ASSERT_TRUE(program.run.close().ok());
  EXPECT_TRUE(program.step(4).is(Code::bad_argument)) << "after close()";
}

TEST(Session, ForgetsAnAttachThatWasRefused) {
  const TemporaryDirectory folder;
  std::vector<float> memory(4);
  Session run = Session::open(folder / "run").value();
  TensorView view = contiguous_view("w", DType::f32, {2, 2}, memory.data());
  std::swap(view.stride_elements[0], view.stride_elements[1]);
  EXPECT_TRUE(run.attach("model", {view}).is(Code::bad_argument));
  EXPECT_TRUE(run.attach("model", {contiguous_view("w", DType::f32, {2, 2}, memory.data())}).ok());
}

TEST(Session, RefusesAStateThatDoesNotFitAndTouchesNothing) {
  const TemporaryDirectory folder;
  {
    Program first(folder / "run");
    ASSERT_TRUE(first.run.restore().ok());
    ASSERT_TRUE(first.step(1).ok());
    ASSERT_TRUE(first.run.close().ok());
  }
  std::vector<float> other(10, 3.0f);
  Session run = Session::open(folder / "run").value();
  ASSERT_TRUE(run.attach("model", {contiguous_view("w", DType::f32, {10}, other.data())}).ok());
  const auto restored = run.restore();
  ASSERT_TRUE(restored.is(Code::mismatch));
  EXPECT_THAT(restored.error().what(), HasSubstr("model.w"));
  EXPECT_THAT(restored.error().what(), HasSubstr("F32[1000]"));
  EXPECT_EQ(other, std::vector<float>(10, 3.0f));
}

TEST(Session, SavesAndStopsAtTheBoundaryAfterASignal) {
  const TemporaryDirectory folder;
  {
    Program program(folder / "run", {.every = "100"});
    ASSERT_TRUE(program.run.restore().ok());
    ASSERT_TRUE(program.step(1).ok());
    ::raise(SIGTERM);
    const auto stopped = program.step(2);
    ASSERT_TRUE(stopped.is(Code::stopped));
    EXPECT_THAT(stopped.error().what(), HasSubstr("2.a1"));
    EXPECT_EQ(exit_with(stopped.error()), 75);
  }
  Program next(folder / "run");
  EXPECT_EQ(next.run.restore().value(), 2u);
}

TEST(Session, StopsBeforeTheFirstStepWithNothingLost) {
  const TemporaryDirectory folder;
  for (int i = 0; i < 2; ++i) {
    Program program(folder / "run");
    ::raise(SIGTERM);
    const auto stopped = program.run.restore();
    ASSERT_TRUE(stopped.is(Code::stopped));
    EXPECT_EQ(exit_with(stopped.error()), 75);
  }
  Program next(folder / "run");
  EXPECT_EQ(next.run.restore().value(), 0u);
}

TEST(Session, IsStoppedAtTheEndByASignalAfterTheLastStep) {
  const TemporaryDirectory folder;
  {
    Program program(folder / "run");
    ASSERT_TRUE(program.run.restore().ok());
    ASSERT_TRUE(program.step(1).ok());
    ::raise(SIGTERM);
    const auto closed = program.run.close();
    ASSERT_TRUE(closed.is(Code::stopped));
    EXPECT_EQ(exit_with(closed.error()), 75);
  }
  Program next(folder / "run");
  EXPECT_EQ(next.run.restore().value(), 1u);
}

TEST(Session, SharesTheSignalWithOthersThatEndInAnyOrder) {
  const TemporaryDirectory folder;
  const auto there = [] {
    struct sigaction now{};
    ::sigaction(SIGTERM, nullptr, &now);
    return now.sa_handler;
  };
  const auto before = there();
  auto first = std::make_optional<Program>(folder / "a");
  auto second = std::make_optional<Program>(folder / "b");
  first.reset();
  EXPECT_NE(there(), before);
  ::raise(SIGTERM);
  EXPECT_TRUE(second->run.restore().is(Code::stopped));
  second.reset();
  EXPECT_EQ(there(), before);
}

TEST(Session, ReadsItsOptions) {
  const TemporaryDirectory folder;
  for (const RunOptions& options :
       {RunOptions{.every = "0"}, RunOptions{.every = "often"}, RunOptions{.keep_last = 0},
        RunOptions{.keep_best = KeepBest{"loss", "least"}}, RunOptions{.keep_best = KeepBest{""}},
        RunOptions{.resume = "tag:a b"}, RunOptions{.resume = "yesterday"}})
    EXPECT_TRUE(Session::open(folder / "run", options).is(Code::bad_argument))
        << options.every << options.resume;
  EXPECT_TRUE(Session::open(folder / "run", {.resume = "1200"}).is(Code::not_found))
      << "a name is a sign of an earlier life";
  EXPECT_FALSE(std::filesystem::exists(folder / "run")) << "what is refused creates nothing";
}

/// An environment variable for a scope.
class WithEnv {
 public:
  WithEnv(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~WithEnv() { ::unsetenv(name_); }
  WithEnv(const WithEnv&) = delete;
  WithEnv& operator=(const WithEnv&) = delete;

 private:
  const char* name_;
};

TEST(Session, ObeysTheEnvironment) {
  const TemporaryDirectory folder;
  {
    const WithEnv moved("UNBROKEN_DIR", folder / "moved");
    Program program(folder / "run");
    ASSERT_TRUE(program.run.restore().ok());
    ASSERT_TRUE(program.step(1).ok());
    ASSERT_TRUE(program.run.close().ok());
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "moved/RUN"));
  {
    const WithEnv moved("UNBROKEN_DIR", folder / "moved");
    Program other(folder / "other"), again(folder / "run/");
    ASSERT_TRUE(other.run.restore().ok());
    EXPECT_EQ(again.run.restore().value(), 1u);
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "moved.2.other/RUN"));
  EXPECT_FALSE(std::filesystem::exists(folder / "other"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  {
    const WithEnv capped("UNBROKEN_STEPS", "7");
    const Program program(folder / "run");
    EXPECT_EQ(program.run.steps_of(10), 7u);
    EXPECT_EQ(program.run.steps_of(5), 5u);
  }
  const WithEnv wrong("UNBROKEN_STEPS", "many");
  EXPECT_TRUE(Session::open(folder / "run").is(Code::bad_argument));
}

TEST(Session, IsNeverFreshWhereTheJobRanBefore) {
  const TemporaryDirectory folder;
  const WithEnv restarted("SLURM_RESTART_COUNT", "1");
  EXPECT_TRUE(Session::open(folder / "missing").is(Code::not_found));
  EXPECT_FALSE(std::filesystem::exists(folder / "missing"));
  std::filesystem::create_directory(folder / "empty");
  std::filesystem::permissions(folder / "empty", std::filesystem::perms::owner_all);
  Session run = Session::open(folder / "empty").value();
  EXPECT_TRUE(run.restore().is(Code::not_found));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "empty"));
  Session fresh = Session::open(folder / "missing", {.is_fresh_allowed = true}).value();
  EXPECT_EQ(fresh.restore().value(), 0u);
}

TEST(ExitWith, GivesTheStatusOfTheError) {
  EXPECT_EQ(exit_with(Error(Code::not_found, "x")), 66);
  EXPECT_EQ(exit_with(Error(Code::journal_unreadable, "x")), 66);
  EXPECT_EQ(exit_with(Error(Code::corrupt, "x")), 65);
  EXPECT_EQ(exit_with(Error(Code::mismatch, "x")), 65);
  EXPECT_EQ(exit_with(Error(Code::unavailable, "x")), 74);
  EXPECT_EQ(exit_with(Error(Code::no_space, "x")), 74);
  EXPECT_EQ(exit_with(Error(Code::bad_argument, "x")), 78);
  EXPECT_EQ(exit_with(Error(Code::unsupported, "x")), 78);
  EXPECT_EQ(exit_with(Error(Code::fenced, "x")), 82);
  EXPECT_EQ(exit_with(Error(Code::stopped, "x")), 75);
  EXPECT_EQ(exit_with(Error(Code::unsaved, "x")), 76);
}

}  // namespace
}  // namespace unbroken
