#include "engine/pin/watch.h"

#include <set>

#include "base/check.h"
#include "base/json.h"
#include "base/layout.h"
#include "engine/pin/pin.h"
#include "restore/decide.h"

namespace unbroken {

namespace {
constexpr std::size_t kBeatBytesMax = 64, kSeenMax = 4096;
constexpr JsonLimits kWatchLimits{.bytes = std::size_t{1} << 20, .depth = 4, .nodes = 5 * kSeenMax};
}  // namespace

std::vector<PinWatch::Named> PinWatch::lapsed(const History& history, const Look& look, Instant now,
                                              Duration lasts) {
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
      const bool is_still =
          before != seen_.end() && before->second.beat == beat.value() && before->second.since <= now;
      still[pin] = {std::move(beat).value(), is_still ? before->second.since : now};
      if (now - still[pin].since >= lasts) out.emplace_back(c.commit.save, pin);
    }
  seen_ = std::move(still);
  return out;
}

std::string PinWatch::encode(std::string_view boot_id) const {
  Json seen = Json::array();
  for (const auto& [pin, what] : seen_) {
    if (seen.size() == kSeenMax) break;
    seen.push_back({{"pin", pin.hex()},
                    {"beat", what.beat ? Json(*what.beat) : Json()},
                    {"since_ns", what.since.since_boot.count()}});
  }
  auto text = seal({{"boot", boot_id}, {"seen", std::move(seen)}});
  return text.ok() ? std::move(text).value() : std::string();  // a heartbeat of bytes that are no text
}

PinWatch PinWatch::decode(std::string_view bytes, std::string_view boot_id) {
  const auto sealed = open_sealed(bytes, kWatchLimits);
  if (!sealed.ok()) return {};
  PinWatch out;
  Fields f(sealed.value().value, "pins");
  if (f.text("boot") != boot_id) return {};
  for (const Json& row : f.array("seen", kSeenMax)) {
    Fields item(row, "pin");
    const Nonce pin = item.nonce("pin");
    Seen seen{std::nullopt, {Duration(static_cast<Duration::rep>(item.u64("since_ns", INT64_MAX)))}};
    if (!item.any("beat", true).is_null()) seen.beat = item.text("beat", kBeatBytesMax);
    if (!item.end().ok()) return {};
    out.seen_.emplace(pin, std::move(seen));
  }
  return f.end().ok() ? out : PinWatch();
}

Result<> let_pins_lapse(const Seams& seams, const History& history, PinWatch& watch,
                        const std::function<Result<>(Decide)>& append, const Deadline& by) {
  const auto look = [&](Nonce pin) -> Result<std::optional<std::string>> {
    auto beat = seams.store.get(pin_key(pin), kBeatBytesMax, by);
    if (beat.is(Code::not_found)) return std::optional<std::string>();
    if (!beat.ok()) return std::move(beat).error();
    return std::optional(std::move(beat).value());
  };
  for (const auto& [save, pin] : watch.lapsed(history, look, seams.clock.now(), seams.pin_lasts)) {
    UNBROKEN_DO(append(unpin_decision({save, pin})));
    watch.forget(pin);
    (void)seams.store.remove(pin_key(pin), by);
  }
  return Done{};
}

void sweep_heartbeats(const Seams& seams, const History& history, const Deadline& by) {
  const auto names = seams.store.list(kPinsPrefix, by);
  if (!names.ok()) return;
  std::set<Nonce> held;
  for (const Checkpoint& c : history.checkpoints()) held.insert(c.pins.begin(), c.pins.end());
  for (const std::string& name : names.value())
    if (const auto pin = Nonce::from_hex(name); pin.ok() && !held.contains(pin.value()))
      (void)seams.store.remove(pin_key(pin.value()), by);
}

}  // namespace unbroken
