#pragma once
// Exit statuses: what a supervisor, a scheduler or a script does next. This header is their only home; the
// tables in the docs and the scheduler templates are generated from it.
#include <string_view>

#include "unbroken/error.h"

namespace unbroken {

enum class ExitCode : int {
  finished = 0,              ///< done; no retry
  bad_data = 65,             ///< damaged data, poisoned state, state mismatch; never retried
  nothing_to_resume = 66,    ///< nothing valid to resume from, or the journal is damaged; never retried
  storage_unavailable = 74,  ///< not reached, full or not permitted; retried with back-off, not charged
  interrupted = 75,          ///< the newest commit survives the announced event; retried, not charged
  interrupted_unsaved =
      76,  ///< the emergency save did not commit, the older one stands; retried, not charged, alarm
  node_suspect = 77,      ///< this machine damages data; retried on another one
  misconfigured = 78,     ///< the call or its surroundings must change first; never retried
  hang = 79,              ///< killed by a watchdog; retried, charged
  crash = 80,             ///< an invariant did not hold, or the process just died; retried, charged
  budget_exhausted = 81,  ///< too many retries, or no progress; never retried
  superseded = 82,        ///< a newer attempt owns this run; never retried, quietly
};

/// The class of an error as users know it.
struct ErrorKind {
  std::string_view name;  ///< "NothingToResume"
  ExitCode exit_code;
};
ErrorKind kind_of(Code code) noexcept;

}  // namespace unbroken
