#pragma once
// Steps 1 and 2 of an append (rule R3), shared with reading: follow the journal to its head, make the prefix
// durable, and re-read its last slot by name.
//
// Records that were only read may be gone again after the sync (a server restarted): the fold is forgotten
// and read again from slot 0, once. Records that stood after a sync may not: a journal that lost one of those
// is refused. A slot that is missing below one that is there is looked up again after a listing, which makes
// a network file system forget that it once was not there.
//
// Slots that a listing names are read many at once; beyond those, the more at once the more there were. The
// answers are judged one after the other, and from the first one that is no whole record on they are
// forgotten and asked for again: what comes of it is what reading slot after slot comes to.
#include <optional>
#include <utility>
#include <vector>

#include "journal/slots.h"

namespace unbroken {

class Catchup {
 public:
  /// `history` is empty or stood after a sync. Without `is_syncing` the prefix is only read.
  /// With `is_auditing` every SUMMARY is compared with what the records come to.
  Catchup(History history, bool is_syncing, bool is_auditing = false);
  /// What to ask for next; its answers come to on(), in this order.
  std::vector<Action> ask();
  enum class Next : std::uint8_t { wait, ask, stands };
  /// Errors: journal_unreadable, unsupported, or the failure of an action.
  Result<Next> on(const Event& event);
  /// Starts another round from the fold that stands.
  void again();
  /// What was read is not there any more: forgotten, and read from slot 0, once. Then again() and ask().
  Result<> begin_anew() { return refold(); }
  /// The slots up to this one are known to be there.
  void expect(std::uint64_t slot) { expected_ = slot; }
  /// This slot is asked for alone.
  void ask_alone(std::uint64_t slot) { alone_ = slot; }
  std::uint64_t bytes_read() const { return bytes_read_; }
  const History& history() const { return follow_.history(); }
  /// Ends it.
  History take_history() { return follow_.take(); }
  const std::vector<std::uint64_t>& repaired() const { return follow_.repaired(); }
  const std::vector<std::uint64_t>& wrong_summaries() const { return follow_.wrong_summaries(); }

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
  std::uint64_t count_to_ask() const;
  Action ask_one() const;
  Result<Next> on_batch();
  Result<Next> on_one(const Event& event);
  Result<Next> on_slot(const std::optional<std::string>& bytes);
  Result<Next> on_reread(const std::optional<std::string>& bytes);
  Result<Next> at_head();
  Result<> refold();
  void stands() { durable_ = {history().next_slot(), history().head()}; }

  Follow follow_;
  bool is_syncing_, is_auditing_;
  State state_ = State::following;
  Mark durable_;
  int refolds_ = 0;
  std::uint64_t asked_ = 0;       // slots under way together
  std::vector<Event> answers_;    // to them, so far
  std::uint64_t unexpected_ = 0;  // slots found that nothing was known of
  std::optional<std::uint64_t> expected_, alone_;
  std::uint64_t bytes_read_ = 0;
};

/// The error behind an event, if it is one. A slot that is too long to read is junk in the journal.
std::optional<Error> journal_failure(const Event& event);

}  // namespace unbroken
