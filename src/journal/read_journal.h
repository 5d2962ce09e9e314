#pragma once
// Reads the journal from where a fold stands to its head: from the one that it is given, else from the newest
// that is stored and checks out, else from slot 0. What comes of it is the same.
//
// Nothing is taken on trust: the hint and the listing are only asked whether slots stand beyond the head that
// was found. Where one says so, everything is listed and read once more; if it still says so, records were
// lost, and a journal that lost records is refused (rules R11, R13, R16).
#include <memory>
#include <optional>
#include <vector>

#include "journal/hint.h"
#include "journal/history.h"
#include "world/action.h"

namespace unbroken {

struct JournalRead {
  History history;
  std::vector<std::uint64_t> repaired;  ///< slots read from their second copy
  std::optional<Hint> hint;             ///< as found, if it is one of this run
  std::uint64_t bytes_read = 0;         ///< of slots and folds
  /// Of an audit: slots whose SUMMARY is not what the records before it come to.
  std::vector<std::uint64_t> wrong_summaries = {};
};

class ReadJournal final : public Machine {
 public:
  enum class Purpose : std::uint8_t {
    decide,  ///< what was read is made durable (sync) and read again: the fold may be acted on
    look,    ///< reads only: for commands and loads that must not write
    audit,   ///< as look, but every record from slot 0, and compares the stored folds with them
  };
  ReadJournal(History history, Purpose purpose);
  ~ReadJournal() override;
  std::vector<Action> start() override;
  std::vector<Action> on(const Event& event) override;
  bool is_over() const override;
  /// After is_over(), once. An empty journal is an empty history. Errors: journal_unreadable, unsupported,
  /// unavailable.
  Result<JournalRead> take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unbroken
