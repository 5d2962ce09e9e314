#pragma once
// Never a silent fresh start: what has to be true before a run may begin at step 0, and how it begins.
#include <string>
#include <vector>

#include "engine/seams.h"
#include "journal/history.h"

namespace unbroken {

/// For a directory whose journal is empty. Refuses where any of our names is there (a run without its
/// journal), and where something says that there was an earlier life, unless `is_fresh_allowed`. Errors:
/// not_found, journal_unreadable.
Result<> check_may_start_fresh(const Seams& seams, bool is_fresh_allowed, bool has_sign, const Deadline& by);

/// For a directory that is empty or missing. Errors: not_found where something says that this job ran before.
Result<> check_no_earlier_life(const Process& process, const std::string& path, bool is_fresh_allowed);

/// Appends GENESIS, then creates RUN. Another process may have been first; then the run is that one's.
Result<History> create_run(const Seams& seams, History history, const Deadline& by);

/// Makes RUN where a kill came between GENESIS and it, and refuses one of another run. One that is damaged or
/// was lost is a note: the journal says the same.
Result<> check_run_object(const Seams& seams, const History& history, std::vector<std::string>& notes,
                          const Deadline& by);

}  // namespace unbroken
