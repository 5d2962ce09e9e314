#pragma once
// What the background found out and the trainer asks for: the newest checkpoint, health, messages, being
// fenced.
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "world/clock.h"
#include "world/cpu_meter.h"

namespace unbroken {

struct Health {
  enum class State : std::uint8_t { green, yellow, red };
  State state = State::green;
  std::vector<std::string> why;
  std::uint64_t saves_failed = 0, saves_skipped = 0;
};

/// Threads: any.
class Status {
 public:
  /// What a committed save cost.
  struct Cost {
    double exposed_s = 0;  ///< the loop waited
    double staged_s = 0;   ///< from when the loop went on until all was copied
    double durable_s = 0;  ///< from when the loop went on until it was durable
    std::uint64_t bytes = 0;
    std::uint64_t later_bytes = 0;       ///< of these, copied while the loop went on
    bool is_streamed = false;            ///< the loop waited until all was written
    Instant snapped = {};                ///< whose state it holds
    Instant went_on = {};                ///< the loop, after what was copied at once
    std::shared_ptr<CpuMeter> cpu = {};  ///< of copying, hashing, writing and committing it; may be null
    double cpu_s() const { return cpu ? cpu->seconds() : 0; }
  };
  void saved(const SaveId& save, const Cost& cost);
  /// `since_s`: since the loop went on.
  void verified(const SaveId& save, double since_s);
  /// `is_raised`: the caller has the error already.
  void save_failed(const SaveId& save, const Error& error, bool is_raised = false);
  void save_skipped();
  /// These tensors were written before they were copied.
  void changed_meanwhile(const std::vector<std::string>& tensors);
  /// Every tensor of which that was said in this life, sorted.
  std::vector<std::string> distrusted() const;
  std::size_t distrusted_count() const;
  /// A line for a person.
  void tell(std::string text);
  void warn(std::string text);
  /// Turns health yellow until a later save is verified.
  void worry(std::string text);
  /// Why `rpo=` cannot be kept, empty while it can: health is yellow while it cannot.
  void promise_breaks(const std::string& why);
  void fenced(Error error);
  /// Turns health red until a later save is committed.
  void journal_lost(Error error);

  std::optional<SaveId> newest() const;
  void set_newest(std::optional<SaveId> save);
  Health health() const;
  std::optional<Error> fence() const;
  /// Why the journal, as it stands, is of no use to a start.
  std::optional<Error> loss() const;
  /// The failure of a save that was not raised yet; asked once.
  std::optional<Error> take_failure();
  /// Lines to show a person, each once. With `goes_on` those of failed saves say that training does.
  std::vector<std::string> take_messages(bool goes_on);
  /// How the saves since the last call ended, oldest first: what they cost, or nothing where one failed.
  std::vector<std::optional<Cost>> take_ends();
  /// The saves of this life so far.
  struct Saves {
    std::uint64_t committed = 0, failed = 0, skipped = 0;
    double exposed_s = 0;  ///< of all together
    std::optional<SaveId> last;
    Cost last_cost;
    std::optional<double> last_verified_s;  ///< none: not read back yet
  };
  Saves saves() const;

 private:
  mutable std::mutex mutex_;
  std::optional<SaveId> newest_;
  std::uint64_t saves_failed_ = 0, saves_skipped_ = 0;
  std::optional<std::string> last_failure_, worry_;
  std::string broken_promise_;
  std::optional<Error> unreported_, fence_, loss_;
  struct Message {
    std::string text;
    bool is_failed_save = false;
  };
  void add_message(Message message);      ///< with the mutex held
  void add_end(std::optional<Cost> end);  ///< the same
  std::vector<Message> messages_;
  std::vector<std::optional<Cost>> ends_;
  std::set<std::string> distrusted_;
  Saves saves_;
};

}  // namespace unbroken
