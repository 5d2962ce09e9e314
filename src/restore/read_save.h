#pragma once
// Reads what describes a committed save, from the COMMIT record down: manifest, receipt, index, sums; with
// the shard's own bytes hashed where asked. Finds every kind of damage, names the object, changes nothing.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/manifest.h"
#include "format/verify.h"
#include "journal/record.h"
#include "world/action.h"

namespace unbroken {

/// A save as its objects describe it.
struct SavedState {
  Commit commit;
  Manifest manifest;
  Index index;
  std::vector<Xxh128> chunks;  ///< expected, of the shard
  std::string shard;           ///< key
  std::string run = {};        ///< uuid; set by who read the journal
};

class ReadSave final : public Machine {
 public:
  enum class Depth : std::uint8_t {
    description,  ///< all but the shard's bytes
    everything,   ///< the shard is read and hashed too
    audit,        ///< the same, and what cannot be read now is noted: the rest is read all the same
  };
  ReadSave(Commit commit, Depth depth);
  ~ReadSave() override;
  std::vector<Action> start() override;
  std::vector<Action> on(const Event& event) override;
  bool is_over() const override;

  struct Unread {
    std::string object;
    Error error;
  };
  struct Found {
    std::optional<SavedState> state;  ///< empty where it cannot be described
    std::vector<Damage> damage;       ///< empty: nothing is wrong with what was read
    std::vector<Unread> unread;  ///< of an audit: EIO, EACCES and the like, which say nothing of the bytes
    std::uint64_t bytes_read = 0;
  };
  /// After is_over(). Errors: unavailable (not of an audit: EIO, EACCES and the like are not damage),
  /// unsupported (an unknown critical feature is not damage either), not_found (data/ is no folder), late,
  /// stopped.
  Result<Found> take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unbroken
