#pragma once
// Looks for the newest fold that can be used, so that a start reads little of a long journal (rule R12):
//   1. where is the end? Told by a listing or the hint, which are believed as positions only; or by galloping
//      and bisecting over the slots that may hold a SUMMARY;
//   2. from there downward, the first SUMMARY whose object is there and checks out.
// Nothing that is found here is an error: what cannot be used is passed over, and without a fold the records
// are read from slot 0.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "journal/fold/fold.h"
#include "world/action.h"

namespace unbroken {

class FindFold {
 public:
  explicit FindFold(std::uint64_t fold_every) : every_(fold_every) {}
  /// `told`: slots that may be there, the likeliest last. Folds of slots up to `above` are of no use. Empty:
  /// there is nothing to look at.
  std::vector<Action> descend(std::vector<std::uint64_t> told, std::uint64_t above = 0);
  /// `there`: a slot that is there. Looks for the end first.
  std::vector<Action> gallop(std::uint64_t there);
  /// Empty: it is over, or more answers are to come.
  std::vector<Action> on(const Event& event);
  bool is_over() const { return state_ == State::over; }
  /// Once over.
  std::optional<History> take() { return std::exchange(found_, std::nullopt); }
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  enum class State : std::uint8_t { galloping, bisecting, probing, fetching, over };
  struct Candidate {
    FoldRef ref;
    Sha256 previous;
  };
  Action slot_of(std::uint64_t multiple) const;
  std::vector<Action> end();
  std::vector<Action> next_told();
  std::vector<Action> probe();
  std::vector<Action> fetch();
  std::vector<Action> on_end_probe(bool is_there);
  std::vector<Action> on_probe(const std::optional<std::string>& bytes);

  const std::uint64_t every_;
  State state_ = State::over;
  // Multiples of every_, not slots:
  std::uint64_t there_ = 0, absent_ = 0, asked_ = 0;  // of the end
  std::uint64_t above_ = 0, next_ = 0;                // of the way down: next_ is the next to ask for
  std::vector<std::uint64_t> told_;
  std::uint64_t window_ = 1, waiting_ = 0;
  bool is_any_there_ = false;          // in this window
  std::vector<Candidate> candidates_;  // the newest last
  std::optional<History> found_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace unbroken
