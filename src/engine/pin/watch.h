#pragma once
// A collector's view of the pins of others (rule R17): a clock may delay a deletion, never permit one, so a
// pin ends by UNPIN in the journal alone. It is appended for a reader whose heartbeat stood still for as long
// as a pin lasts, by the monotonic clock of whoever watches: clocks of two machines are never compared.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/seams.h"
#include "journal/append.h"

namespace unbroken {

/// What was seen of heartbeats. A value: told what stands there and when.
class PinWatch {
 public:
  using Named = std::pair<SaveId, Nonce>;
  /// The heartbeat as it stands; nullopt: there is none. An error: nothing is known now.
  using Look = std::function<Result<std::optional<std::string>>(Nonce)>;
  /// Looks at every pin of the prefix; those that lapsed.
  std::vector<Named> lapsed(const History& history, const Look& look, Instant now, Duration lasts);
  /// That one is known to be over.
  void forget(Nonce pin) { seen_.erase(pin); }

  /// For a command that looks once and ends: what the next one on this machine needs.
  std::string encode(std::string_view boot_id) const;
  /// Nothing, where it is of another boot, whose clock says nothing here, or is not whole.
  static PinWatch decode(std::string_view bytes, std::string_view boot_id);
  bool is_empty() const { return seen_.empty(); }

 private:
  struct Seen {
    std::optional<std::string> beat;
    Instant since;
  };
  std::map<Nonce, Seen> seen_;
};

/// Appends UNPIN, by `append`, for readers that died, and removes their heartbeats. Errors: those of
/// `append`.
Result<> let_pins_lapse(const Seams& seams, const History& history, PinWatch& watch,
                        const std::function<Result<>(Decide)>& append, const Deadline& by);

/// Removes heartbeats that belong to no pin of the prefix: of readers that ended in the middle of taking one,
/// or were taken for dead and went on. One that is just being taken beats again.
void sweep_heartbeats(const Seams& seams, const History& history, const Deadline& by);

}  // namespace unbroken
