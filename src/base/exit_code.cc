#include "unbroken/exit_code.h"

namespace unbroken {

ErrorKind kind_of(Code code) noexcept {
  switch (code) {
    case Code::not_found:
    case Code::journal_unreadable:
      return {"NothingToResume", ExitCode::nothing_to_resume};
    case Code::corrupt:
      return {"CorruptCheckpoint", ExitCode::bad_data};
    case Code::mismatch:
      return {"StateMismatch", ExitCode::bad_data};
    case Code::unavailable:
    case Code::vanished:
    case Code::late:
    case Code::stopped:
      return {"StorageUnavailable", ExitCode::storage_unavailable};
    case Code::unsaved:
      return {"Interrupted", ExitCode::interrupted_unsaved};
    case Code::no_space:
      return {"StorageFull", ExitCode::storage_unavailable};
    case Code::bad_argument:
    case Code::unsupported:
      return {"Misconfigured", ExitCode::misconfigured};
    case Code::fenced:
      return {"Superseded", ExitCode::superseded};
    case Code::bug:
      break;
  }
  return {"Bug", ExitCode::crash};
}

}  // namespace unbroken
