#pragma once
// Where the journal lives, and how one slot is read.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/layout.h"
#include "journal/history.h"
#include "world/action.h"

namespace unbroken {

/// "journal/00000000000000000007".
std::string slot_key(std::uint64_t slot);
/// The slot that a name directly below journal/ stands for; nullopt for any other name.
std::optional<std::uint64_t> slot_from_name(std::string_view name);

/// Follows the journal forward, one slot at a time. Junk is read again (until two looks agree, three times at
/// most), then looked up in the slot after: a VOID there skips it, anything else refuses (rule R13).
class Follow {
 public:
  /// With `is_auditing` every SUMMARY is compared with what the records come to.
  explicit Follow(History history, bool is_auditing = false)
      : history_(std::move(history)), is_auditing_(is_auditing) {}
  /// The read to do next.
  Action ask() const;
  /// Whether that is the next slot, as long as nothing is in doubt.
  bool is_reading() const { return state_ == State::reading; }
  enum class Step : std::uint8_t { more, head };
  /// `head`: the next slot is not there. Errors: journal_unreadable, unsupported. A chain that does not fit
  /// is journal_unreadable with is_chain_broken().
  Result<Step> on(const std::optional<std::string>& bytes);
  bool is_chain_broken() const { return is_chain_broken_; }
  const History& history() const { return history_; }
  History take() { return std::move(history_); }
  const std::vector<std::uint64_t>& repaired() const { return repaired_; }
  /// Slots whose SUMMARY names another fold.
  const std::vector<std::uint64_t>& wrong_summaries() const { return wrong_summaries_; }

 private:
  enum class State : std::uint8_t { reading, reading_again, looking_for_void };
  Result<Step> on_void(const std::optional<std::string>& bytes);
  Result<Step> on_junk(const std::string& bytes, const std::string& why);
  Result<Step> fold(const DecodedRecord& decoded);
  void audit(const DecodedRecord& decoded);

  History history_;
  bool is_auditing_ = false;
  State state_ = State::reading;
  std::string junk_, junk_why_;
  int rereads_ = 0;
  bool is_chain_broken_ = false;
  std::vector<std::uint64_t> repaired_, wrong_summaries_;
};

}  // namespace unbroken
