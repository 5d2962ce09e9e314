#include "os/child.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <iterator>

#include "os/test_support.h"
#include "os/user/work_folder.h"

namespace unbroken {
namespace {

using namespace std::chrono_literals;

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

ChildOptions shell(const std::string& script, const TemporaryDirectory& folder) {
  return {.command = {"sh", "-c", script},
          .env = {},
          .stdout_file = folder / "out",
          .stderr_file = folder / "err"};
}

TEST(Child, EndsWithItsStatusAndItsOutputIsInFiles) {
  const TemporaryDirectory folder;
  auto child = Child::start(shell("echo good; echo bad >&2; cat; exit 7", folder));
  ASSERT_TRUE(child.ok()) << child.error().what();
  const auto end = child.value().wait(60s);
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->is_signal);
  EXPECT_EQ(end->number, 7);
  EXPECT_EQ(content_of(folder / "out"), "good\n");
  EXPECT_EQ(content_of(folder / "err"), "bad\n");
}

TEST(Child, TakesAnEnvironmentOfItsOwn) {
  const TemporaryDirectory folder;
  ::setenv("UNBROKEN_TEST_GONE", "1", 1);
  ChildOptions options = shell("echo \"$UNBROKEN_TEST_SET,${UNBROKEN_TEST_GONE-none}\"", folder);
  options.env = {{"UNBROKEN_TEST_SET", "here"}, {"UNBROKEN_TEST_GONE", std::nullopt}};
  auto child = Child::start(options);
  ASSERT_TRUE(child.ok());
  ASSERT_TRUE(child.value().wait(60s));
  EXPECT_EQ(content_of(folder / "out"), "here,none\n");
}

TEST(Child, SaysWhenThereIsNoSuchCommand) {
  const auto child =
      Child::start({.command = {"/no/such/command"}, .env = {}, .stdout_file = {}, .stderr_file = {}});
  EXPECT_TRUE(child.is(Code::not_found));
}

TEST(Child, IsKilledWithEverythingItStarted) {
  const TemporaryDirectory folder;
  auto child = Child::start(shell("sleep 1000 & sleep 1000; true", folder));
  ASSERT_TRUE(child.ok());
  EXPECT_FALSE(child.value().wait(1ms));
  child.value().send(Child::Signal::kill);
  const auto end = child.value().wait(60s);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->is_signal);
  EXPECT_EQ(end->number, SIGKILL);
}

TEST(Child, AnEndThatIsAskedForReachesTheWholeGroup) {
  const TemporaryDirectory folder;
  // The shell dies at once; what it started takes its time and is waited for.
  auto child = Child::start(
      shell("sh -c 'trap \"echo late; exit 0\" TERM; echo up; while :; do sleep 0.05; done' & wait", folder));
  ASSERT_TRUE(child.ok());
  FileTail tail(folder / "out");
  while (tail.lines().empty()) ASSERT_FALSE(child.value().wait(5ms));
  child.value().send(Child::Signal::term);
  const auto end = child.value().wait(60s);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->is_signal);
  EXPECT_EQ(end->number, SIGTERM);
}

TEST(Child, OneThatIsStoppedStaysUntilItIsKilled) {
  const TemporaryDirectory folder;
  auto child = Child::start(shell("sleep 1000", folder));
  ASSERT_TRUE(child.ok());
  child.value().send(Child::Signal::stop);
  EXPECT_FALSE(child.value().wait(20ms));
  child.value().send(Child::Signal::kill);
  EXPECT_TRUE(child.value().wait(60s));
}

TEST(WorkFolder, EachOneIsNew) {
  const TemporaryDirectory folder;
  const auto one = make_work_folder(folder / "deep/er", "drill"),
             two = make_work_folder(folder / "deep/er", "drill");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one.value(), folder / "deep/er/drill-0001");
  EXPECT_EQ(two.value(), folder / "deep/er/drill-0002");
  const auto temporary = make_work_folder("", "drill");
  ASSERT_TRUE(temporary.ok());
  EXPECT_TRUE(std::filesystem::is_directory(temporary.value()));
  remove_work_folder(temporary.value());
  EXPECT_FALSE(std::filesystem::exists(temporary.value()));
}

TEST(FileTail, GivesWholeLinesOnce) {
  const TemporaryDirectory folder;
  FileTail tail(folder / "log");
  EXPECT_TRUE(tail.lines().empty());
  std::ofstream file(folder / "log");
  file << "one\ntw" << std::flush;
  EXPECT_EQ(tail.lines(), std::vector<std::string>{"one"});
  file << "o\nthree\n" << std::flush;
  EXPECT_EQ(tail.lines(), (std::vector<std::string>{"two", "three"}));
  EXPECT_TRUE(tail.lines().empty());
}

}  // namespace
}  // namespace unbroken
