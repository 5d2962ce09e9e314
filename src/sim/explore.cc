#include "sim/explore.h"

#include <set>
#include <utility>

#include "base/check.h"

namespace unbroken {

CrashCount for_every_crash(const CrashOptions& options, const SimWorld::Body& body,
                           const std::function<void(SimWorld& after, const Crash& crash)>& check) {
  CrashCount count;
  std::set<std::pair<Xxh128, std::uint64_t>> seen;
  for (std::uint64_t n = 1;; ++n) {
    SimWorld world({.seed = options.seed, .profile = options.profile});
    world.disk().restore(options.start);
    SimProcess& victim = world.spawn("victim", body, options.process);
    victim.kill_at_op(n);
    const SimEnd end = world.run();
    if (!end.ok()) throw CheckFailed(end.failure);
    Crash crash{.op = n, .is_power_loss = true, .is_finished = victim.state() == SimProcess::State::exited};
    UNBROKEN_CHECK(victim.is_over());
    SimRandom random = world.stream("explore");
    const LossStates left = world.disk().power_loss_states(options.states_max, random);
    count.is_complete = count.is_complete && left.is_complete;
    const auto is_new = [&](const Xxh128& image) {
      if (image.low % options.parts != options.part) return false;
      return !options.promised || seen.emplace(image, options.promised()).second;
    };
    for (const DiskImage& image : left.images) {
      if (!is_new(image.hash())) continue;
      SimWorld after({.seed = mix64(options.seed + n), .profile = options.profile});
      after.disk().restore(image);
      check(after, crash);
      ++count.states;
    }
    crash.is_power_loss = false;
    if (is_new(world.disk().image().hash()) || (crash.is_finished && options.part == 0)) {
      check(world, crash);
      ++count.states;
    }
    if (crash.is_finished) {
      count.ops = n - 1;
      return count;
    }
  }
}

}  // namespace unbroken
