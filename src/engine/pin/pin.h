#pragma once
// A reader's pin: PIN in the journal, and an advisory heartbeat beside it (rule R17). As long as the
// heartbeat changes, no collector condemns the checkpoint; a reader that died leaves a heartbeat that stands
// still.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/seams.h"
#include "journal/append.h"

namespace unbroken {

/// How often the heart beats while a pin lasts.
inline constexpr int kPinBeats = 10;

/// "pins/0123456789abcdef".
std::string pin_key(Nonce pin);

/// Threads: take() and release() belong to one caller; the heart beats on the strand, which is free where one
/// reads.
class HeldPin : public std::enable_shared_from_this<HeldPin> {
 public:
  /// Durable once it is here. `closed`: that of closed_open(). Errors: vanished (condemned meanwhile: choose
  /// again); those of Append.
  static Result<std::shared_ptr<HeldPin>> take(const Seams& seams, const History& history, const SaveId& save,
                                               std::optional<std::uint64_t> closed, const Deadline& by);
  /// Appends UNPIN and ends the heartbeat. Without it the pin lapses. Errors: those of Append.
  Result<> release(const Deadline& by);

 private:
  HeldPin(const Seams& seams, History history, SaveId save, std::optional<std::uint64_t> closed)
      : seams_(seams), save_(save), pin_(seams.draw()), closed_(closed), history_(std::move(history)) {}
  Result<> append(Decide decide, const Deadline& by);
  Result<> beat(const Deadline& by);
  void schedule();

  const Seams seams_;
  const SaveId save_;
  const Nonce pin_;
  const std::optional<std::uint64_t> closed_;
  History history_;
  std::atomic<bool> is_over_{false}, is_beating_{false};
  std::uint64_t count_ = 0;  // by take(), then by one beat after another
};

}  // namespace unbroken
