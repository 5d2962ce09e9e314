#include "sim/explore.h"

#include <gtest/gtest.h>

#include <set>

namespace unbroken {
namespace {

/// Replaces a file's bytes by way of a second name.
Result<> replace(Fs& fs, std::string_view text, bool is_careful) {
  UNBROKEN_TRY(const FileId file, fs.create_excl("next"));
  Result<> wrote = Done{};
  fs.write_at(file, 0, BufferRef::of(std::string(text)), [&](Result<> r) { wrote = std::move(r); });
  fs.settle(file);
  UNBROKEN_DO(std::move(wrote));
  if (is_careful) UNBROKEN_DO(fs.sync(file));
  UNBROKEN_DO(fs.close(file));
  UNBROKEN_DO(fs.rename("next", "state"));
  return is_careful ? fs.sync_dir("") : Done{};
}

struct Seen {
  CrashCount count;
  std::set<std::string> states;
  int broken = 0;
};

Seen explore(bool is_careful) {
  SimWorld start;
  start.disk().plant("state", "old");
  bool is_acknowledged = false;
  Seen seen;
  seen.count = for_every_crash(
      {.seed = 5, .start = start.disk().image()},
      [&](SimProcess& me) {
        is_acknowledged = false;
        is_acknowledged = replace(me.fs(), "new", is_careful).ok();
      },
      [&](SimWorld& after, const Crash& crash) {
        EXPECT_EQ(crash.is_finished, is_acknowledged);
        const std::string state = after.disk().peek("state").value_or("-");
        seen.states.insert(state);
        if (is_acknowledged ? state != "new" : state != "old" && state != "new") ++seen.broken;
      });
  return seen;
}

TEST(Explore, SeesEveryOutcomeOfACarefulReplacement) {
  const Seen seen = explore(true);
  EXPECT_EQ(seen.states, (std::set<std::string>{"old", "new"}));
  EXPECT_EQ(seen.broken, 0);
  EXPECT_EQ(seen.count.ops, 6u);
  EXPECT_TRUE(seen.count.is_complete);
  EXPECT_GT(seen.count.states, 20u);
}

TEST(Explore, FindsWhatACarelessOneLoses) {
  const Seen seen = explore(false);
  EXPECT_GT(seen.broken, 0);
  EXPECT_TRUE(seen.states.contains(""));
  EXPECT_TRUE(seen.states.contains(std::string(3, '\0')));
}

TEST(Explore, WorldsNestInsideACheckerOfAnother) {
  SimWorld world;
  int inner_runs = 0;
  world.after_every_event([&] {
    SimWorld inner;
    inner.disk().restore(world.disk().image());
    inner.spawn("reader", [&](SimProcess& me) { inner_runs += me.fs().list("").ok(); });
    const SimEnd end = inner.run();
    if (!end.ok()) world.fail(end.failure);
  });
  for (const std::string name : {"a", "b"}) {
    world.spawn(name, [name](SimProcess& me) {
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(me.fs().make_dir(name + std::to_string(i)).ok());
    });
  }
  const SimEnd end = world.run();
  EXPECT_EQ(end.why, SimEnd::Why::all_over) << end.failure;
  EXPECT_EQ(inner_runs, 10);
}

}  // namespace
}  // namespace unbroken
