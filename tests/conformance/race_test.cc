// Exclusive creation between real processes, and the probe that asks for it at every start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "conformance/os_store.h"
#include "conformance/spy_fs.h"
#include "filestore/probe.h"

namespace unbroken {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kRounds = 100;

/// Ends the calling process: creates every object as soon as the parent lets it, and says which ones it won.
[[noreturn]] void race_in_child(const std::string& directory, char name, int start, int answer) {
  OsClient client(directory);
  for (int round = 0; round < kRounds; ++round) {
    char go = 0;
    if (::read(start, &go, 1) != 1) std::_Exit(2);
    const std::string key = "journal/" + std::to_string(round);
    const auto how = client.store.create(key, as_bytes(std::string(1, name)), client.soon());
    const char said = !how.ok()                         ? 'e'
                      : how.value() == Created::created ? 'w'
                      : how.value() == Created::exists  ? 'l'
                                                        : 'u';
    if (::write(answer, &said, 1) != 1) std::_Exit(3);
  }
  std::_Exit(0);
}

struct Racer {
  pid_t pid = -1;
  int start = -1, answer = -1;
};

Racer start_racer(const std::string& directory, char name) {
  std::array<int, 2> start{}, answer{};
  EXPECT_EQ(::pipe(start.data()), 0);
  EXPECT_EQ(::pipe(answer.data()), 0);
  const pid_t pid = ::fork();
  if (pid == 0) race_in_child(directory, name, start[0], answer[1]);
  ::close(start[0]);
  ::close(answer[1]);
  return {pid, start[1], answer[0]};
}

// failure: NVIDIA/apex#629
TEST(Race, OfTwoProcessesExactlyOneCreatesEachObject) {
  const TemporaryDirectory directory;
  const std::array<Racer, 2> racers = {start_racer(directory.path(), 'a'),
                                       start_racer(directory.path(), 'b')};
  OsClient client(directory.path());
  std::array<int, 2> wins{};
  for (int round = 0; round < kRounds; ++round) {
    for (const Racer& racer : racers) ASSERT_EQ(::write(racer.start, "x", 1), 1);
    std::string answers(2, '?');
    for (std::size_t i = 0; i < 2; ++i) ASSERT_EQ(::read(racers[i].answer, &answers[i], 1), 1);
    ASSERT_TRUE(answers == "wl" || answers == "lw") << "round " << round << ": " << answers;
    const std::size_t winner = answers == "wl" ? 0 : 1;
    ++wins[winner];
    ASSERT_EQ(client.store.get("journal/" + std::to_string(round), 10, client.soon()).value(),
              std::string(1, winner == 0 ? 'a' : 'b'));
  }
  for (const Racer& racer : racers) {
    int status = -1;
    ASSERT_EQ(::waitpid(racer.pid, &status, 0), racer.pid);
    EXPECT_EQ(status, 0);
    ::close(racer.start);
    ::close(racer.answer);
  }
  EXPECT_EQ(wins[0] + wins[1], kRounds);
  EXPECT_EQ(client.store.list("journal/", client.soon()).value().size(), static_cast<std::size_t>(kRounds));
  EXPECT_EQ(client.store.sweep("journal/", [](std::string_view) { return true; }, client.soon()).value(), 0U);
}

class Probe : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::unique_ptr<OsFs> real_ = OsFs::open(directory_.path()).value();
  SpyFs fs_{*real_};
  OsClock clock_;
  OsRandom random_;
  FileStore store_{fs_, clock_, random_, {.path = directory_.path()}};
  const Deadline by_{clock_.now() + std::chrono::minutes(5), {}};
};

TEST_F(Probe, AcceptsAPlainDirectoryAndCleansUp) {
  ASSERT_TRUE(probe_store(store_, random_, by_).ok());
  ASSERT_TRUE(probe_store(store_, random_, by_).ok());
  EXPECT_THAT(real_->list("journal").value(), IsEmpty());
}

TEST_F(Probe, RefusesACreateThatReplaces) {
  fs_.link_answer = [](Fs& real, std::string_view from, std::string_view to) -> Result<Created> {
    UNBROKEN_DO(real.rename(from, to));
    return Created::created;
  };
  const auto fit = probe_store(store_, random_, by_);
  ASSERT_TRUE(fit.is(Code::unsupported));
  EXPECT_THAT(fit.error().what(), HasSubstr(directory_.path()));
  EXPECT_THAT(real_->list("journal").value(), IsEmpty());
}

TEST_F(Probe, RefusesACreateThatClaimsToWinTwice) {
  fs_.link_answer = [](Fs& real, std::string_view from, std::string_view to) -> Result<Created> {
    UNBROKEN_DO(real.link(from, to));
    return Created::created;
  };
  EXPECT_TRUE(probe_store(store_, random_, by_).is(Code::unsupported));
}

TEST_F(Probe, RefusesWhereNothingIsExclusiveAndNamesTheWayOut) {
  fs_.fail("link", Code::unsupported);
  const auto fit = probe_store(store_, random_, by_);
  ASSERT_TRUE(fit.is(Code::unsupported));
  EXPECT_THAT(fit.error().what(), HasSubstr("RENAME_NOREPLACE"));
  EXPECT_THAT(real_->list("journal").value(), IsEmpty());
}

TEST_F(Probe, TakesALostAnswerForWhatItIs) {
  fs_.link_answer = [](Fs& real, std::string_view from, std::string_view to) -> Result<Created> {
    UNBROKEN_TRY(const Created how, real.link(from, to));
    return how == Created::created ? Created::unknown : how;
  };
  EXPECT_TRUE(probe_store(store_, random_, by_).ok());
}

/// After every call but the last of a probe, somebody who has begun the run sweeps.
TEST_F(Probe, IsDisturbedByASweepAndTriesAgain) {
  for (std::size_t nth = 1;; ++nth) {
    std::size_t calls = 0;
    bool is_swept = false;
    fs_.on_call = [&](const std::string&) {
      if (++calls != nth) return;
      for (const std::string& name :
           real_->list("journal").ok() ? real_->list("journal").value() : std::vector<std::string>())
        static_cast<void>(real_->unlink("journal/" + name).ok());
      is_swept = true;
    };
    const auto fit = probe_store(store_, random_, by_);
    EXPECT_TRUE(fit.ok()) << "before call " << nth << ": " << fit.error().what();
    fs_.on_call = nullptr;
    EXPECT_THAT(real_->list("journal").value(), IsEmpty());
    if (!is_swept) return;
    ASSERT_LT(nth, 100U);
  }
}

TEST_F(Probe, PassesOnWhatTheStorageSays) {
  fs_.fail("sync", Code::no_space);
  EXPECT_TRUE(probe_store(store_, random_, by_).is(Code::no_space));
  fs_.heal();
  fs_.fail("create_excl", Code::unavailable);
  EXPECT_TRUE(probe_store(store_, random_, by_).is(Code::unavailable));
}

}  // namespace
}  // namespace unbroken
