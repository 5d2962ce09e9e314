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
  storage_unavailable = 74,  ///< retried with back-off, not charged
  interrupted = 75,          ///< the newest commit survives the announced event; retried, not charged
  interrupted_unsaved =
      76,  ///< the emergency save did not commit, the older one stands; retried, not charged, alarm
  node_suspect = 77,      ///< retried on another node
  misconfigured = 78,     ///< never retried
  hang = 79,              ///< killed by the watchdog; hang budget
  crash = 80,             ///< crash budget
  budget_exhausted = 81,  ///< or no progress; never retried
  superseded = 82,        ///< a newer attempt owns this run; never retried, quietly
};

/// The class of an error as users know it.
struct ErrorKind {
  std::string_view name;  ///< "NothingToResume"
  ExitCode exit_code;
};
ErrorKind kind_of(Code code) noexcept;

}  // namespace unbroken
