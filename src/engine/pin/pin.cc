#include "engine/pin/pin.h"

#include <fmt/format.h>

#include "base/layout.h"
#include "engine/driver.h"
#include "engine/start/owner.h"
#include "restore/decide.h"

namespace unbroken {

namespace {
constexpr Duration kBeatLimit = std::chrono::minutes(1);
}  // namespace

std::string pin_key(Nonce pin) {
  return std::string(kPinsPrefix) + pin.hex();
}

Result<> HeldPin::beat(const Deadline& by) {
  const std::string text = fmt::format("{}\n", ++count_);
  return seams_.store.advise(pin_key(pin_), as_bytes(text), by);
}

/// On the strand: whoever reads fills the io lane for as long as it reads.
void HeldPin::schedule() {
  seams_.executor.post_at(seams_.clock.now() + seams_.pin_lasts / kPinBeats, [held = weak_from_this()] {
    const auto me = held.lock();
    if (!me) return;
    me->is_beating_ = true;  // before it looks: release() says first that it is over, and looks then
    const bool is_alive = !me->is_over_;
    if (is_alive) (void)me->beat(me->seams_.within(kBeatLimit));
    me->is_beating_ = false;
    me->seams_.executor.notify();
    if (is_alive) me->schedule();
  });
}

Result<std::shared_ptr<HeldPin>> HeldPin::take(const Seams& seams, const History& history, const SaveId& save,
                                               std::optional<std::uint64_t> closed, const Deadline& by) {
  std::shared_ptr<HeldPin> held(new HeldPin(seams, history, save, closed));
  UNBROKEN_DO(held->beat(by));  // before the PIN: who sees that one finds it
  UNBROKEN_DO(held->append(pin_decision({save, held->pin_}), by));
  held->schedule();
  return held;
}

Result<> HeldPin::release(const Deadline& by) {
  if (is_over_.exchange(true)) return Done{};
  UNBROKEN_DO(seams_.executor.wait([this] { return !is_beating_; }, by));
  UNBROKEN_DO(append(unpin_decision({save_, pin_}), by));
  (void)seams_.store.remove(pin_key(pin_), by);
  return Done{};
}

Result<> HeldPin::append(Decide decide, const Deadline& by) {
  Append append(std::move(history_), seams_.draw(), seams_.clock.wall_unix_ms(), std::move(decide));
  auto appended = run(seams_, append, by);
  if (!appended.ok()) {
    // A PIN that may yet come to stand keeps its heartbeat, and lapses.
    if (!append.may_stand()) (void)seams_.store.remove(pin_key(pin_), by);
    return std::move(appended).error();
  }
  history_ = std::move(appended.value().history);
  say_closed(seams_, history_, closed_, by);
  return Done{};
}

}  // namespace unbroken
