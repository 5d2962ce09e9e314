#pragma once
// Executes what protocols ask for. The caller's thread runs the machine; its actions run on the io lane.
#include "engine/seams.h"
#include "world/action.h"
#include "world/advice.h"

namespace unbroken {

/// One action, now. Failures come back as ActionFailed.
Event execute(const Seams& seams, const Action& action, const Deadline& by);

/// Runs the machine until it is over. What it asks for together is done together; it hears the answers in its
/// order. Past the deadline every further action fails as late, so it ends.
void drive(const Seams& seams, Machine& machine, const Deadline& by);

/// drive(), then take(). Protocols know no directory: what a person should run next about an error of theirs
/// is filled in here.
template <class M>
auto run(const Seams& seams, M&& machine, const Deadline& by) {
  drive(seams, machine, by);
  auto taken = machine.take();
  return taken.ok() ? taken : advised(std::move(taken), seams.store.identity().path);
}

}  // namespace unbroken
