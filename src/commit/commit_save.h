#pragma once
// Makes one save durable and then true (protocol steps S2 to S9, for a lone writer):
//   1. write shard, index and sums under names with this writer's nonce; their bytes are durable, and so are
//      their names, in any order: a shard that is on its way when this begins is waited for last;
//   2. create the receipt, and the manifest that holds it; read both back by name, sync their names;
//   3. look every one of the five up afresh by name, then append COMMIT, for which the journal was read, and
//      made durable as far as it was read, beside step 1.
// Nothing is acknowledged before step 3 is over; whatever is left of an unfinished save is invisible.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commit/decide.h"
#include "format/index.h"
#include "format/manifest.h"
#include "journal/append.h"

namespace unbroken {

/// All that a commit is made of. `index` has save, writer and nonce filled in by the machine.
struct SaveContent {
  Index index;
  BufferRef image;                              ///< the shard file
  std::shared_ptr<BegunWrite> begun = nullptr;  ///< its write, where that is on its way already
  /// The shard stands under this save's nonce already, as long as `index` says: `image` is empty.
  bool is_shard_written = false;
  std::vector<Xxh128> chunks;
  std::uint64_t state_bytes = 0;
  std::map<std::string, std::string> provenance;
  std::map<std::string, double> metrics;  ///< those that fit the manifest and the COMMIT record are kept
  std::string health = std::string(kHealthOk);
  std::vector<std::string> tags = {};
};

/// Who saves, and under which names.
struct SaveTicket {
  SaveId save;
  OpenRef open;                  ///< of this attempt
  std::optional<SaveId> resume;  ///< of this attempt
  Nonce life, nonce, append_nonce;
  std::int64_t at_unix_ms = 0;
};

class CommitSave final : public Machine {
 public:
  /// `history` is any earlier fold of this journal.
  CommitSave(SaveTicket ticket, SaveContent content, History history);
  ~CommitSave() override;
  std::vector<Action> start() override;
  std::vector<Action> on(const Event& event) override;
  bool is_over() const override;

  struct Committed {
    CommitFate fate = CommitFate::dropped;
    History history;
    std::uint64_t bytes_written = 0;
    std::string hint;  ///< to be written to kHintKey; empty where nothing was appended
  };
  /// After is_over(). Errors: fenced; mismatch (a receipt of another life stands there); no_space;
  /// unavailable; journal_unreadable.
  Result<Committed> take();
  /// After a failure: what this save made and nobody will ever name, in the order in which it may be removed.
  /// Nothing is said where a COMMIT of it may stand in the journal.
  std::optional<std::vector<std::string>> debris() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unbroken
