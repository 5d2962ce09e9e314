#pragma once
// Crash at every call a workload makes on storage, and look at everything that may be left: the disk as a
// killed process leaves it, and every distinct outcome of power loss at that instant.
//
//     bool is_acknowledged = false;
//     const CrashCount count = for_every_crash({.seed = 1},
//         [&](SimProcess& me) { is_acknowledged = false; ... is_acknowledged = true; },
//         [&](SimWorld& after, const Crash& crash) { spawn a reader in `after`, run() it, expect });
#include <cstdint>
#include <functional>

#include "sim/sim_world.h"

namespace unbroken {

struct CrashOptions {
  std::uint64_t seed = 0;
  LossProfile profile = LossProfile::any_subset;
  std::size_t states_max = 4096;  ///< at one instant
  DiskImage start = {};           ///< what is on the disk before
  SpawnOptions process = {};
  /// What the body has promised so far. With it, equal disks under equal promises are looked at once in all.
  std::function<std::uint64_t()> promised = {};
  /// Only the disks whose hash falls into `part` of `parts`, so that processes can share the work.
  std::size_t part = 0, parts = 1;
};

struct Crash {
  std::uint64_t op = 0;        ///< the call at which the process died, from 1
  bool is_power_loss = false;  ///< else only the process died
  bool is_finished = false;    ///< it had reached its end
};

struct CrashCount {
  std::uint64_t ops = 0;     ///< calls of a run that is not interrupted
  std::uint64_t states = 0;  ///< how often `check` was called
  bool is_complete = true;   ///< no instant had more than `states_max` outcomes
};

/// `body` runs once for each n, killed at its n-th call, and once to its end; it starts by resetting what the
/// test keeps of it. `check` gets a world that holds what was left and nobody who is alive. A failure of the
/// world that ran `body` is thrown as CheckFailed.
CrashCount for_every_crash(const CrashOptions& options, const SimWorld::Body& body,
                           const std::function<void(SimWorld& after, const Crash& crash)>& check);

}  // namespace unbroken
