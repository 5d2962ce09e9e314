#pragma once
// Steps 1 and 2 of an append (rule R3), shared with reading: follow the journal to its head, make the prefix
// durable, and re-read its last slot by name.
//
// Records that were only read may be gone again after the sync (a server restarted): the fold is forgotten
// and read again from slot 0, once. Records that stood after a sync may not: a journal that lost one of those
// is refused. A slot that is missing below one that is there is looked up again after a listing, which makes
// a network file system forget that it once was not there.
#include <optional>
#include <utility>
#include <vector>

#include "journal/slots.h"

namespace unbroken {

class Catchup {
 public:
  /// `history` is empty or stood after a sync. Without `is_syncing` the prefix is only read.
  Catchup(History history, bool is_syncing);
  Action ask() const;
  /// True once the prefix stands. Errors: journal_unreadable, unsupported, or the failure of an action.
  Result<bool> on(const Event& event);
  /// Starts another round from the fold that stands.
  void again() { state_ = State::following; }
  const History& history() const { return follow_.history(); }
  /// Ends it.
  History take_history() { return follow_.take(); }
  const std::vector<std::uint64_t>& repaired() const { return follow_.repaired(); }

 private:
  enum class State : std::uint8_t {
    following,
    looking_beyond,  ///< is n + 1 there although n is not?
    looking_back,    ///< then n came in between ...
    listing,
    looking_again,  ///< ... or it is missing
    syncing,
    rereading
  };
  /// A prefix that stood after a sync.
  struct Mark {
    std::uint64_t slots = 0;
    Sha256 head;
  };
  Result<bool> on_slot(const std::optional<std::string>& bytes);
  Result<bool> on_reread(const std::optional<std::string>& bytes);
  Result<bool> at_head();
  Result<> refold();
  void stands() { durable_ = {history().next_slot(), history().head()}; }

  Follow follow_;
  bool is_syncing_;
  State state_ = State::following;
  Mark durable_;
  int refolds_ = 0;
};

/// The error behind an event, if it is one. A slot that is too long to read is junk in the journal.
std::optional<Error> journal_failure(const Event& event);

}  // namespace unbroken
