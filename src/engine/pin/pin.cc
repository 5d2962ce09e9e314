#include "engine/pin/pin.h"

#include <fmt/format.h>

#include "base/layout.h"
#include "engine/driver.h"
#include "journal/append.h"
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

/// One beat after another: the next is due some time after the last one came through.
void HeldPin::schedule() {
  seams_.executor.post_at(seams_.clock.now() + kPinBeat, [held = weak_from_this()] {
    const auto me = held.lock();
    if (!me || me->is_over_) return;
    const bool is_posted = me->seams_.executor.post(Lane::io, [held] {
      if (const auto now = held.lock()) now->go_on();
    });
    if (!is_posted) me->schedule();
  });
}

void HeldPin::go_on() {
  is_beating_ = true;  // before it looks: release() says first that it is over, and looks then
  const bool is_alive = !is_over_;
  if (is_alive) (void)beat(seams_.within(kBeatLimit));
  is_beating_ = false;
  seams_.executor.notify();
  if (is_alive) schedule();
}

Result<std::shared_ptr<HeldPin>> HeldPin::take(const Seams& seams, const History& history, const SaveId& save,
                                               const Deadline& by) {
  std::shared_ptr<HeldPin> held(new HeldPin(seams, save));
  UNBROKEN_DO(held->beat(by));  // before the PIN: who sees that one finds it
  UNBROKEN_TRY(
      Appended appended,
      run(seams, Append(history, seams.draw(), seams.clock.wall_unix_ms(), pin_decision({save, held->pin_})),
          by));
  held->history_ = std::move(appended.history);
  held->schedule();
  return held;
}

Result<> HeldPin::release(const Deadline& by) {
  if (is_over_.exchange(true)) return Done{};
  UNBROKEN_DO(seams_.executor.wait([this] { return !is_beating_; }, by));
  UNBROKEN_TRY(Appended appended, run(seams_,
                                      Append(std::move(history_), seams_.draw(), seams_.clock.wall_unix_ms(),
                                             unpin_decision({save_, pin_})),
                                      by));
  (void)seams_.store.remove(pin_key(pin_), by);
  return Done{};
}

std::vector<PinWatch::Named> PinWatch::lapsed(const History& history, const Look& look, Instant now) {
  std::vector<Named> out;
  std::map<Nonce, Seen> still;
  for (const Checkpoint& c : history.checkpoints())
    for (const Nonce& pin : c.pins) {
      auto beat = look(pin);
      const auto before = seen_.find(pin);
      if (!beat.ok()) {
        still[pin] = {std::nullopt, now};  // what cannot be seen may be alive
        continue;
      }
      const bool is_still = before != seen_.end() && before->second.beat == beat.value();
      still[pin] = {std::move(beat).value(), is_still ? before->second.since : now};
      if (now - still[pin].since >= kPinLasts) out.emplace_back(c.commit.save, pin);
    }
  seen_ = std::move(still);
  return out;
}

}  // namespace unbroken
