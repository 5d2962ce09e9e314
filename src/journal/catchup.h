#pragma once
// Steps 1 and 2 of an append (rule R3), shared with reading: follow the journal to its head, make the prefix
// durable, and re-read its last slot by name. A prefix that changed underneath is folded again from slot 0,
// once.
#include <optional>

#include "journal/slots.h"

namespace unbroken {

class Catchup {
 public:
  /// Without `is_syncing` the prefix is only read.
  Catchup(History history, bool is_syncing) : follow_(std::move(history)), is_syncing_(is_syncing) {}
  Action ask() const;
  /// True once the prefix stands. Errors: journal_unreadable, unsupported, or the failure of an action.
  Result<bool> on(const Event& event);
  /// Starts another round from the fold that stands.
  void again() { state_ = State::following; }
  /// Forgets the fold: the storage lost what had been read.
  Result<> refold();
  const History& history() const { return follow_.history(); }
  const std::vector<std::uint64_t>& repaired() const { return follow_.repaired(); }

 private:
  enum class State : std::uint8_t { following, looking_beyond, looking_back, syncing, rereading };
  Result<bool> at_head();
  Result<bool> on_bytes(const std::optional<std::string>& bytes);

  Follow follow_;
  bool is_syncing_;
  State state_ = State::following;
  int refolds_ = 0;
};

/// The error behind an event, if it is one. A slot that is too long to read is junk in the journal.
std::optional<Error> journal_failure(const Event& event);

}  // namespace unbroken
