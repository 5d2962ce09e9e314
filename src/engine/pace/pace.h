#pragma once
// When this life saves: the schedule that was given, or the cadence, which measures; and the account of it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cadence/cadence.h"
#include "cadence/schedule.h"
#include "engine/opening.h"
#include "engine/pace/account.h"
#include "engine/status.h"

namespace unbroken {

struct PaceOptions {
  Schedule schedule = Schedule::automatic();
  CadenceOptions cadence = {};
};

/// Threads: one, the trainer's. Times are those of one Clock.
class Pace {
 public:
  /// Before the run is opened: what the lives in the journal measured counts.
  /// Errors: bad_argument (bounds that contradict each other; a promise, made anew, that the saves measured
  /// so far cannot keep).
  static Result<Pace> create(const PaceOptions& options, const Seams& seams, const History& history,
                             const Deadline& by);
  /// The run is opened; its restore began at `began`.
  void start(const Opened& opened, Instant began, const Clock& clock);

  void on_step(std::uint64_t step, Instant now);
  /// Should the state after `step` be saved?
  enum class Verdict : std::uint8_t { no, yes, skipped };
  Verdict decide(std::uint64_t step, Instant now, bool is_saving);
  /// A save held up the loop until `now`.
  void on_save(Instant now);
  /// At a boundary: how the saves since the last one ended, in order.
  void follow(const std::vector<std::optional<Status::Cost>>& ends, Instant now);
  /// The arithmetic in one line, where a person should hear of it.
  std::optional<std::string> take_line();

  /// Time to write the account: after the first step, after each save, and each time that this life is 5 %
  /// older.
  bool is_account_due(Instant now) const;
  std::string account(Instant now, std::int64_t wall_unix_ms, bool is_closed,
                      std::optional<int> code = std::nullopt);

  const CadencePlan& plan() const { return cadence_.plan(); }
  double step_s() const { return cadence_.step_s(); }

 private:
  Pace(const PaceOptions& options, Cadence cadence)
      : schedule_(options.schedule),
        keep_every_(options.cadence.keep_every),
        cadence_(std::move(cadence)),
        is_line_due_(is_automatic()) {}
  bool is_automatic() const { return schedule_.kind() == Schedule::Kind::automatic; }
  void on_first_step(Instant now);

  Schedule schedule_;
  std::uint64_t keep_every_ = 0;  ///< steps that are saved whatever is in flight
  Cadence cadence_;
  Account account_;
  Instant began_, written_;
  std::optional<std::int64_t> last_sign_unix_ms_;  ///< of the life before
  double last_step_s_ = 0;                         ///< the same
  double away_s_ = 0;                              ///< from that sign to the begin of this one
  bool is_recovery_ = false;                       ///< this life makes good for one that lost work
  bool is_account_due_ = false, is_line_due_ = false;
};

}  // namespace unbroken
