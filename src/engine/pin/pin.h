#pragma once
// A reader's pin: PIN in the journal, and an advisory heartbeat beside it (rule R17). As long as the
// heartbeat changes, no collector condemns the checkpoint; a reader that died leaves a heartbeat that stands
// still.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/seams.h"
#include "journal/history.h"

namespace unbroken {

/// A pin whose heartbeat did not change for so long, by the collector's own monotonic clock, is void.
inline constexpr Duration kPinLasts = std::chrono::minutes(5);
/// How often it is renewed.
inline constexpr Duration kPinBeat = kPinLasts / 10;

/// "pins/0123456789abcdef".
std::string pin_key(Nonce pin);

/// Threads: take() and release() belong to one caller; beats run in the lanes.
class HeldPin : public std::enable_shared_from_this<HeldPin> {
 public:
  /// Durable once it is here. Errors: vanished (condemned meanwhile: choose again); those of Append.
  static Result<std::shared_ptr<HeldPin>> take(const Seams& seams, const History& history, const SaveId& save,
                                               const Deadline& by);
  /// Appends UNPIN and ends the heartbeat. Without it the pin lapses. Errors: those of Append.
  Result<> release(const Deadline& by);

 private:
  HeldPin(const Seams& seams, SaveId save) : seams_(seams), save_(save), pin_(seams.draw()) {}
  Result<> beat(const Deadline& by);
  void schedule();
  void go_on();

  const Seams seams_;
  const SaveId save_;
  const Nonce pin_;
  History history_;
  std::atomic<bool> is_over_{false}, is_beating_{false};
  std::uint64_t count_ = 0;  // by take(), then by one beat after another
};

/// What a collector has seen of heartbeats. A value: told what stands there and when.
class PinWatch {
 public:
  using Named = std::pair<SaveId, Nonce>;
  /// The heartbeat as it stands; nullopt: there is none. An error: nothing is known now.
  using Look = std::function<Result<std::optional<std::string>>(Nonce)>;
  /// Looks at every pin of the prefix; those that lapsed.
  std::vector<Named> lapsed(const History& history, const Look& look, Instant now);

 private:
  struct Seen {
    std::optional<std::string> beat;
    Instant since;
  };
  std::map<Nonce, Seen> seen_;
};

}  // namespace unbroken
