#pragma once
// The account: what a life tells of itself for the lives after it and for `unbroken explain`: how long it has
// lived, how far it came, what its saves cost, and the interval it keeps. Advisory: one small object for each
// attempt, replaced now and then. Where one is missing or damaged, the journal tells how long that life
// was at least, and nothing tells what it lost.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cadence/cadence.h"
#include "engine/seams.h"
#include "journal/history.h"

namespace unbroken {

struct Account {
  std::string run;              ///< uuid
  std::uint32_t attempt = 0;    ///< with the slot of its OPEN
  std::uint64_t open_slot = 0;  ///< what is of another OPEN is not believed
  std::int64_t at_unix_ms = 0;
  double alive_s = 0;       ///< from the begin of its restore to this writing, monotonic
  std::uint64_t start = 0;  ///< completed steps that it went on from
  std::uint64_t step = 0;   ///< completed so far
  double step_s = 0;        ///< how long one takes
  bool is_closed = false;   ///< it ended in an orderly way, with nothing in flight
  std::optional<int>
      code;  ///< the status with which its process was about to end, where it closed and said so
  double rpo_s = std::numeric_limits<double>::infinity();  ///< promised
  std::vector<SaveCost> costs;       ///< the last few, of earlier lives too; oldest first
  std::vector<double> recoveries_s;  ///< the same
  CadencePlan plan;
  Cadence::Range mtti_ci95 = {};
};

/// So many costs and recoveries are kept.
inline constexpr std::size_t kAccountValues = 5;

/// "metrics/a0003.account".
std::string account_key(std::uint32_t attempt);
/// Completed steps of which it told, after the newest that it saved or went on from.
std::uint64_t unsaved_steps(const Account& account, const Attempt& attempt);
/// Sealed canonical JSON.
std::string encode_account(const Account& account);
/// Errors: corrupt: ignore it.
Result<Account> decode_account(std::string_view bytes);

/// What the newest 64 lives left behind. One without an account is time until its last commit, and no
/// failure.
struct Past {
  std::vector<PastLife> lives;  ///< oldest first
  std::optional<Account> last;  ///< the newest account there is
  bool has_lost_work = false;   ///< the newest life
};
Past read_past(const Seams& seams, const History& history, const Deadline& by);

/// What became of promises (`rpo=`) in the lives that left an account, but the newest of these, whose plan
/// tells.
struct KeptPromises {
  std::uint32_t breaks = 0;  ///< how often more would have been lost
  double exposed_s = 0;      ///< the most of it
  /// The most that a life which ended without a close has lost at least, where that is beyond its promise:
  /// from its newest checkpoint to its last sign of life. Also of the newest account. 0: nothing.
  double unseen_s = 0;
};
KeptPromises read_promises(const Seams& seams, const History& history, const Deadline& by);

/// The account of the newest attempt that left one which is whole.
struct LastAccount {
  Account account;
  /// For people: the newer attempts that left none although they saved, or a damaged one, and why; newest
  /// first.
  std::vector<std::string> passed_over;
};
/// Errors: not_found, unavailable.
Result<LastAccount> read_account(const Seams& seams, const History& history, const Deadline& by);
/// "attempt 3: ...; attempt 2: ... and 5 more"
std::string named(const std::vector<std::string>& passed_over);

}  // namespace unbroken
