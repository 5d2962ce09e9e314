#pragma once
// Deletes what retention gives up and what the journal proves dead (rules R7, R10). Nothing goes before the
// records that condemn it are durable and were read back:
//   1. append INTENT for every victim, oldest first, each decided on its prefix. The last append finds no
//      victim and stands down, having made durable and read again whatever it was decided on, other
//      writers' records too;
//   2. list data/; in every folder that this prefix proves dead: shards, indexes and sums first, then
//      receipts, the manifest last, then the folder;
//   3. append DELETED for the condemned ones;
//   4. list fold/; remove the folds that no SUMMARY of this prefix names, or only one older than the newest
//   two.
//      Those of slots that are not there yet may still be named.
// Age never decides anything. A stale listing makes it delete less, never more.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "format/receipt.h"
#include "journal/append.h"
#include "journal/retention.h"

namespace unbroken {

class Collect final : public Machine {
 public:
  /// What to condemn next on a prefix; nullopt: nothing more. Errors end the collection.
  using Choose = std::function<Result<std::optional<SaveId>>(const History&)>;
  /// `draw` gives the nonces of its appends. With `mine`, stops as fenced where another attempt is newest.
  Collect(History history, std::optional<OpenRef> mine, std::int64_t at_unix_ms, std::function<Nonce()> draw,
          Choose choose = next_victim);
  ~Collect() override;
  std::vector<Action> start() override;
  std::vector<Action> on(const Event& event) override;
  bool is_over() const override;

  struct Collected {
    History history;
    std::vector<SaveId> condemned;  ///< by this collection
    std::vector<SaveId> removed;    ///< folders that are gone
  };
  /// After is_over(). Errors: fenced, journal_unreadable, unavailable, no_space. A folder that could not be
  /// emptied is left for the next collection.
  Result<Collected> take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unbroken
