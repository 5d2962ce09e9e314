#include "scenarios.h"

#include <fmt/format.h>

#include <array>

#include "sim/explore.h"
#include "toy_run.h"

namespace unbroken::toy {

bool is_traced = false;

namespace {

/// Runs what is alive to its end, then looks at everything.
bool settle(SimWorld& world, Oracle& oracle) {
  const SimEnd end = world.run();
  if (end.ok()) oracle.check_disk();
  return world.failure().empty();
}

/// Ends every process before what their bodies use is gone: some are alive where a scenario ends early.
struct Ending {
  SimWorld& world;
  ~Ending() {
    for (const auto& process : world.processes()) process->kill();
  }
};

/// What a scenario plays on.
struct Stage {
  explicit Stage(std::uint64_t seed)
      : world({.seed = seed, .is_traced = is_traced}), random(world.stream("scenario")), oracle(world) {}
  SimWorld world;
  SimRandom random;
  Oracle oracle;
  Ending ending{world};

  SimProcess& spawn(const std::string& name, const Life& life) { return spawn(name, life, oracle); }
  SimProcess& spawn(const std::string& name, const Life& life, Oracle& by) {
    return world.spawn(name, [life, &by](SimProcess& me) { live(me, life, by); });
  }
  void spawn_loader(const std::string& name, std::uint64_t fold_every) {
    world.spawn(name, [fold_every](SimProcess& me) { evaluate(me, fold_every); });
  }
  bool settle() { return toy::settle(world, oracle); }
  Outcome outcome() const {
    return {world.failure(),       world.trace_hash(), world.event_count(), oracle.acknowledged_count(),
            oracle.restored_count, world.trace()};
  }
};

Life draw_life(SimRandom& random) {
  Life life;
  life.steps = 2 + random.below(6);
  life.every = 1 + random.below(2);
  life.keep_last = static_cast<std::uint32_t>(1 + random.below(3));
  life.verified_min =
      std::min<std::uint32_t>(life.keep_last, 1 + static_cast<std::uint32_t>(random.below(2)));
  life.is_draining = random.below(3) == 0;
  if (random.below(3) == 0) life.keep_every = 2 + random.below(2);
  life.is_best_kept = random.below(2) == 0;
  life.is_tagging = random.below(4) == 0;
  if (random.below(4) == 0) life.nan_every = 2 + random.below(3);
  return life;
}

/// At any call, or where the order of two effects matters most.
void kill_somewhere(SimProcess& process, SimRandom& random) {
  static constexpr std::array<const char*, 5> kPoints{"filestore.before_dir_sync", "filestore.after_link",
                                                      "journal.after_create", "commit.before_append",
                                                      "collect.before_remove"};
  if (random.below(2) == 0) return process.kill_at_op(1 + random.below(400));
  const char* const point = kPoints[random.below(kPoints.size())];
  process.kill_at_point(point, 1 + random.below(12));
}

/// One life after another; each but the last is killed somewhere, sometimes with the power.
void kill_lives(Stage& on, const Life& life) {
  auto& [world, random, oracle, ending] = on;
  const bool is_folding = life.fold_every < kFoldEvery;
  const std::uint64_t lives = 1 + random.below(3);
  for (std::uint64_t i = 0; i <= lives; ++i) {
    SimProcess& process = on.spawn(fmt::format("life-{}", i), life);
    const bool is_killed_at_fold = is_folding && i < lives && random.below(3) == 0;
    if (is_killed_at_fold)
      process.kill_at_point(random.below(3) == 0 ? "collect.before_fold" : "journal.before_fold",
                            1 + random.below(5));
    else if (i < lives)
      kill_somewhere(process, random);
    if (random.below(4) == 0) on.spawn_loader(fmt::format("loader-{}", i), life.fold_every);
    if (!on.settle()) return;
    if (i < lives && random.below(2) == 0) world.power_loss();
    if (is_folding && random.below(4) == 0) oracle.damage_a_fold(random);
  }
  oracle.check_disk();
  oracle.check_swept();
}

void killed_lives(Stage& on) {
  kill_lives(on, draw_life(on.random));
}

/// A life is stopped in the middle, another takes over, the first one goes on: it must do no harm.
void pause_lives(Stage& on, const Life& life) {
  auto& [world, random, oracle, ending] = on;
  oracle.may_see_an_owner = true;  // where the first is stopped before it has opened the run
  SimProcess& first = on.spawn("first", life);
  first.pause_at_op(1 + random.below(300));
  if (!on.settle()) return;
  Life next = life;
  next.is_takeover = true;
  next.steps += random.below(4);
  SimProcess& second = on.spawn("second", next);
  if (random.below(3) == 0) second.kill_at_op(1 + random.below(300));
  world.call_at(world.now() + std::chrono::microseconds(20 * random.below(1200)), [&] { first.resume(); });
  if (random.below(2) == 0) on.spawn_loader("loader", life.fold_every);
  if (!on.settle()) return;
  first.resume();
  if (!on.settle()) return;
  on.spawn("third", next);
  if (on.settle()) oracle.check_swept();
}

/// Several begin one run at once, some stop in the middle of it and go on later: one owns it in the end, and
/// none is told anything but that, whoever swept what another was making.
void starters(Stage& on) {
  auto& [world, random, oracle, ending] = on;
  Life life = draw_life(random);
  life.is_takeover = true;
  const std::uint64_t count = 2 + random.below(2);
  std::vector<SimProcess*> stopped;
  for (std::uint64_t i = 0; i < count; ++i) {
    SimProcess& process = on.spawn(fmt::format("starter-{}", i), life);
    if (random.below(2) == 0) {
      process.pause_at_op(1 + random.below(60));
      stopped.push_back(&process);
    } else if (random.below(4) == 0) {
      process.kill_at_op(1 + random.below(60));
    }
  }
  if (!on.settle()) return;
  for (SimProcess* process : stopped) process->resume();
  if (!on.settle()) return;
  on.spawn("last", life);
  if (on.settle()) oracle.check_swept();
}

void zombies(Stage& on) {
  pause_lives(on, draw_life(on.random));
}

/// Storage that fails now and then: errors are allowed, wrong states and lost promises are not.
void fail_storage(Stage& on, const Life& life) {
  auto& [world, random, oracle, ending] = on;
  oracle.are_errors_allowed = true;
  world.faults().set_rates(swarm_rates(random));
  for (int i = 0; i < 2; ++i) {
    SimProcess& process = on.spawn(fmt::format("life-{}", i), life);
    if (random.below(2) == 0) process.kill_at_op(1 + random.below(400));
    if (!on.settle()) return;
    if (random.below(3) == 0) world.power_loss();
  }
  world.faults().stop();
  oracle.are_errors_allowed = false;
  on.spawn("last", life);
  on.settle();
}

void failing_storage(Stage& on) {
  fail_storage(on, draw_life(on.random));
}

/// Folds every few slots instead of every 256, in lives that are killed or paused, or on storage that
/// fails; some folds are damaged or lost.
void folds(Stage& on) {
  auto& [world, random, oracle, ending] = on;
  Life life = draw_life(random);
  life.fold_every = oracle.fold_every = 2 + random.below(8);
  life.steps += random.below(4);
  const std::uint64_t way = random.below(4);
  if (way == 0) return pause_lives(on, life);
  if (way == 1) return fail_storage(on, life);
  kill_lives(on, life);
}

/// The storage server restarts and forgets names that were not synced, while its clients live on.
void server_restarts(Stage& on) {
  auto& [world, random, oracle, ending] = on;
  oracle.are_errors_allowed = true;
  const Life life = draw_life(random);
  on.spawn("life", life);
  world.call_at(world.now() + std::chrono::microseconds(20 * random.below(500)),
                [&] { world.server_restart(); });
  if (!on.settle()) return;
  on.spawn("next", life);
  on.settle();
}

/// A life goes back to an older checkpoint and is killed there: what it resumes from is still there for the
/// next.
void roll_back(Stage& on) {
  auto& [world, random, oracle, ending] = on;
  Life life = draw_life(random);
  life.keep_last = 1 + static_cast<std::uint32_t>(random.below(2));
  life.verified_min = 1;
  life.every = 1;
  life.steps = 4 + random.below(3);
  on.spawn("first", life);
  if (!on.settle()) return;
  Oracle later(world);  // going back gives up what was acknowledged
  const Ending ends_first{world};
  later.are_errors_allowed = true;
  Life back = life;
  back.resume = std::to_string(life.steps - random.below(life.keep_last + 1));
  SimProcess& second = on.spawn("second", back, later);
  second.kill_at_op(30 + random.below(300));
  if (!settle(world, later)) return;
  on.spawn("third", life, later);
  settle(world, later);
}

/// Somebody removes the newest slots of the journal: the next life is refused, and nothing is appended.
void lost_tail(Stage& on) {
  auto& [world, random, oracle, ending] = on;
  const Life life = draw_life(random);
  on.spawn("first", life);
  if (!on.settle()) return;
  const std::uint64_t before = oracle.slot_count();
  const std::uint64_t left = random.below(before);
  oracle.cut_journal(left);
  oracle.are_errors_allowed = true;
  Life longer = life;
  longer.steps += 2;
  const std::uint64_t restored = oracle.restored_count;
  on.spawn("second", longer);
  const SimEnd end = world.run();
  if (end.ok() && (oracle.restored_count != restored || oracle.slot_count() != left))
    world.fail(fmt::format("a life went on over a journal that was cut from {} to {} slots", before, left));
}

/// The newest record turns into junk: every life is refused and appends nothing, until the slot is declared
/// void. Who does that is killed in the middle of it, or there are two at once; then the run goes on.
void junk_at_the_head(Stage& on) {
  auto& [world, random, oracle, ending] = on;
  const Life life = draw_life(random);
  SimProcess& first = on.spawn("first", life);
  if (random.below(2) == 0) kill_somewhere(first, random);
  if (!on.settle() || oracle.slot_count() < 2) return;
  const std::uint64_t slot = oracle.spoil_last_slot(), restored = oracle.restored_count;
  Life longer = life;
  longer.steps += 2;
  oracle.are_errors_allowed = true;
  on.spawn("refused", longer);
  if (!world.run().ok()) return;
  if (oracle.restored_count != restored || oracle.slot_count() != slot + 1)
    return world.fail("a life went on over junk in the journal");
  for (int i = 0; !oracle.is_readable(); ++i) {
    for (std::uint64_t k = 0; k <= random.below(2); ++k) {
      SimProcess& doctor = world.spawn(fmt::format("doctor-{}-{}", i, k), [&, slot](SimProcess& me) {
        const auto declared = declare_void(me, slot);
        if (declared.ok() && !oracle.is_readable()) world.fail("a slot was declared void in vain");
      });
      if (random.below(3) > 0) doctor.kill_at_op(1 + random.below(40));
    }
    if (!world.run().ok()) return;
    if (random.below(3) == 0) world.power_loss();
  }
  oracle.are_errors_allowed = false;
  on.spawn("next", longer);
  if (on.settle()) oracle.check_swept();
}

/// Readers pin what they read, beside a trainer that keeps one checkpoint; some are killed. A pin lasts for
/// longer than all of it, or for less: then those of the dead lapse, and perhaps one of the living.
void pinned_loaders(Stage& on) {
  auto& [world, random, oracle, ending] = on;
  Life life{.steps = 3 + random.below(6), .keep_last = 1, .verified_min = 1};
  life.is_draining = random.below(3) == 0;
  if (random.below(2) == 0) life.pin_lasts = std::chrono::milliseconds(1 + random.below(10));
  SimProcess& first = on.spawn("first", life);
  if (random.below(3) == 0) kill_somewhere(first, random);
  for (std::uint64_t i = 0, count = 2 + random.below(3); i < count; ++i) {
    const std::string name = fmt::format("loader-{}", i);
    SimProcess& loader = world.spawn(name, [lasts = life.pin_lasts, drawn = world.stream(name)](
                                               SimProcess& me) { evaluate_pinned(me, lasts, drawn); });
    if (random.below(3) == 0) loader.kill_at_op(1 + random.below(150));
  }
  if (!on.settle()) return;
  if (random.below(3) == 0) world.power_loss();
  Life last = life;
  last.steps += 2;
  on.spawn("last", last);
  if (on.settle()) oracle.check_swept();
}

template <void (*play)(Stage&)>
Outcome run(std::uint64_t seed) {
  Stage stage(seed);
  play(stage);
  return stage.outcome();
}

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{{"killed_lives", run<killed_lives>},
                                         {"zombies", run<zombies>},
                                         {"starters", run<starters>},
                                         {"failing_storage", run<failing_storage>},
                                         {"server_restarts", run<server_restarts>},
                                         {"roll_back", run<roll_back>},
                                         {"lost_tail", run<lost_tail>},
                                         {"folds", run<folds>},
                                         {"junk_at_the_head", run<junk_at_the_head>},
                                         {"pinned_loaders", run<pinned_loaders>}};
  return all;
}

namespace {

/// A disk on which `saves` checkpoints stand and nothing is unsynced.
DiskImage disk_with(std::uint64_t saves) {
  SimWorld world({.seed = 1, .is_write_async = false, .stay_ppm = 900'000});
  Oracle oracle(world);
  const Ending ends_first{world};
  if (saves > 0) {
    const Life life{.steps = saves, .keep_last = 1, .verified_min = 1, .is_draining = true};
    world.spawn("before", [&](SimProcess& me) { live(me, life, oracle); });
    settle(world, oracle);
  }
  return world.disk().image();
}

/// What a process does in a sweep: so many more steps, each saved and collected; then a look.
struct Workload {
  std::uint64_t before, saves, loads;
  Hold hold = Hold::nothing;
};

}  // namespace

Swept sweep(std::size_t states_max, std::size_t part, std::size_t parts) {
  Swept out;
  for (const Workload w : {Workload{0, 1, 0},
                           {0, 2, 0},
                           {0, 1, 1},
                           {2, 1, 0},
                           {2, 2, 0},
                           {2, 1, 1},
                           {2, 3, 0},
                           {0, 3, 0},
                           {2, 1, 1, Hold::pin}}) {
    const Life life{.steps = w.before + w.saves, .keep_last = 1, .verified_min = 1, .is_draining = true};
    ++out.workloads;
    std::optional<Oracle> oracle;
    const CrashCount count = for_every_crash(
        {.seed = 1,
         .states_max = states_max,
         .start = disk_with(w.before),
         .promised = [&] { return oracle->acknowledged_count(); },
         .part = part,
         .parts = parts},
        [&](SimProcess& me) {
          oracle.emplace(me.world());
          live(me, life, *oracle);
          for (std::uint64_t i = 0; i < w.loads; ++i) evaluate(me, kFoldEvery, w.hold);
        },
        [&](SimWorld& after, const Crash& crash) {
          if (!out.failure.empty()) return;
          Oracle here = *oracle;
          here.move_to(after);
          const Ending ends_first{after};
          here.check_disk();
          after.spawn("next", [&](SimProcess& me) { live(me, life, here); });
          if (settle(after, here)) here.check_swept();
          if (!after.failure().empty())
            out.failure = fmt::format("{} before, {} saves, {} loads{}, crash at call {}{}: {}", w.before,
                                      w.saves, w.loads, w.hold == Hold::pin ? " pinned" : "", crash.op,
                                      crash.is_power_loss ? " with the power" : "", after.failure());
        });
    out.crashes += count.states;
    out.is_complete = out.is_complete && count.is_complete;
    if (!out.failure.empty()) return out;
  }
  return out;
}

}  // namespace unbroken::toy
