#pragma once
// Declares the junk in the journal's last slot void (rule R13), because a person asked for it: every reader
// then skips that slot, and the next attempt's number leaves one out, since the junk may have been an OPEN.
//
// It is done only where slot n holds bytes that are no record of it, the same ones whenever they are read,
// all slots before it fold, and nothing says that there ever was a slot n + 1. What the junk was before is
// lost: if it was the COMMIT of a checkpoint, that checkpoint never comes back.
#include <cstdint>
#include <memory>
#include <vector>

#include "journal/history.h"
#include "world/action.h"

namespace unbroken {

class VoidSlot final : public Machine {
 public:
  /// `writer` is drawn afresh. `at_unix_ms` is for people.
  VoidSlot(std::uint64_t slot, Nonce writer, std::int64_t at_unix_ms);
  ~VoidSlot() override;
  std::vector<Action> start() override;
  std::vector<Action> on(const Event& event) override;
  bool is_over() const override;
  /// After is_over(), once: the fold up to and with the VOID record, which is durable and was read back; it
  /// may be that of another process that did the same. Errors: bad_argument (that slot is whole, void
  /// already, not there, not the one that is damaged, or not the last); journal_unreadable (damage that this
  /// does not mend); unavailable, no_space, late, stopped.
  Result<History> take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unbroken
