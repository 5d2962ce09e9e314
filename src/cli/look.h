#pragma once
// A run directory, opened to look at it.
#include <memory>
#include <string>

#include "engine/read/reader.h"
#include "journal/append.h"
#include "journal/read_journal.h"
#include "session/runtime.h"

namespace unbroken {

/// What an argument AT may be, for --help.
inline constexpr char kAtHelp[] = "newest, 1200, 1200.a3, best:METRIC or tag:NAME";

struct Look {
  std::unique_ptr<Runtime> runtime;
  JournalRead journal;
  const History& history() const { return journal.history; }
  const Seams& seams() const { return runtime->seams(); }
  Deadline by() const;
  /// Errors: those of Append.
  Result<> append(Decide decide);
  /// What this command appended to is `now`. That the owner closed stays said.
  void has_appended(History now);
};

/// Errors: not_found (missing, empty, not a run), journal_unreadable, bad_argument (writable by everybody),
/// unsupported, unavailable. Each names the directory and has a next command.
Result<Look> look_at(const std::string& directory, ReadJournal::Purpose purpose = ReadJournal::Purpose::look);
/// Only opens the directory.
Result<std::unique_ptr<Runtime>> open_directory(const std::string& directory);

/// The checkpoint that `at` means, quarantined or not; removed ones are not_found.
Result<const Checkpoint*> choose_any(const History& history, const std::string& at);
/// The checkpoint that `at` means, its index and manifest read. Says on stderr where "newest" had to fall
/// back, and what is being done with the older one: "showing", "comparing".
Result<Reader> read_at(const Look& look, const std::string& directory, const std::string& at,
                       std::string_view doing, Hold hold = Hold::nothing);
/// An error about a checkpoint, with the directory, and `unbroken ls` as what to do next where it says
/// nothing better.
Error pointing_to_list(Error error, const std::string& directory);

}  // namespace unbroken
