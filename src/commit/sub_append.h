#pragma once
// An append inside of another machine.
#include <optional>
#include <utility>
#include <vector>

#include "journal/append.h"

namespace unbroken {

class SubAppend {
 public:
  std::vector<Action> start(History history, Nonce writer, std::int64_t at_unix_ms, Decide decide,
                            Append::Parts parts = Append::Parts::one) {
    append_.emplace(std::move(history), writer, at_unix_ms, std::move(decide), parts);
    return append_->start();
  }
  std::vector<Action> go_on() { return append_->go_on(); }
  /// Hands the event on; once the append is over, `then` says how to go on from what came of it.
  template <class Then>
  std::vector<Action> on(const Event& event, const Then& then) {
    std::vector<Action> actions = append_->on(event);
    if (!append_->is_over()) return actions;
    return then(append_->take());
  }
  /// False as long as no record of it can stand in the journal.
  bool may_stand() const { return append_ && append_->may_stand(); }

 private:
  std::optional<Append> append_;
};

}  // namespace unbroken
