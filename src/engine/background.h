#pragma once
// The background of a session: commits snapshots, reads them back, collects what may go. All journal state
// lives on the strand; reading back runs on the io lane and posts its verdict.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "commit/collect.h"
#include "commit/commit_save.h"
#include "engine/opening.h"
#include "engine/pin/watch.h"
#include "engine/saving.h"
#include "engine/status.h"
#include "engine/write/write_object.h"
#include "restore/read_save.h"
#include "snapshot/staging.h"
#include "world/cpu_meter.h"

namespace unbroken {

/// What grows while something is still copied.
struct SaveTimes {
  std::atomic<double> exposed_s = 0;  ///< what the trainer waited for the save, at its boundary and in fences
  std::atomic<double> at_once_s = 0;  ///< of that, the copying
  std::atomic<double> staged_s = 0;   ///< from when the trainer went on until all was copied
};

/// What is said of a save beside its state.
struct SaveFacts {
  std::map<std::string, double> metrics;
  std::vector<std::string> tags = {};
  std::map<std::string, std::string> provenance;
  std::shared_ptr<SaveTimes> times = std::make_shared<SaveTimes>();
  std::shared_ptr<CpuMeter> cpu = {};  ///< of the save; may be null
  bool is_waited_for = false;
};

/// How shards are written.
struct ShardWrites {
  std::uint64_t bytes_per_s = 0;  ///< at most; 0: as fast as the storage takes them
  GivesWay gives_way = {};        ///< while nobody waits for one of the saves
};

/// Threads: the public methods belong to the trainer.
class Background : public std::enable_shared_from_this<Background> {
 public:
  static std::shared_ptr<Background> start(const Seams& seams, Opened opened, std::shared_ptr<Status> status,
                                           ShardWrites writes);

  /// Takes a snapshot over that the trainer begins to copy: writes what is copied, and copies what is later.
  /// Bounded by the arena: one per slot.
  void commit(std::shared_ptr<Saving> saving, std::shared_ptr<Staging> staging, SaveFacts facts);
  /// Adds names to a save of this attempt. What comes back is durable when they are.
  std::shared_ptr<Saving> tag(const std::shared_ptr<Saving>& earlier, std::vector<std::string> tags);
  /// The save of this step that is committed, or on its way; null where there is none. Only the newest step
  /// is remembered: steps ascend, and one before it can never be committed any more.
  std::shared_ptr<Saving> saving_of(std::uint64_t step) const;
  /// The name that a new save of this step gets.
  SaveId next_id(std::uint64_t step);
  /// The handle of a save that next_id() named.
  std::shared_ptr<Saving> saving(const SaveId& id) const {
    return std::make_shared<Saving>(id, seams_.executor, waiting_);
  }
  /// As long as it lives, the trainer waits for what is written.
  Counted hurry() const { return Counted(waiting_.get()); }
  bool is_saving() const { return saves_in_flight_.load() > 0; }
  bool is_idle() const { return jobs_.load() == 0; }
  /// Adds a line to this attempt's metrics. The storage is given it within a second where it answers, and at
  /// once where a save begins or all is waited for; what waits is lost where the process is killed.
  void add_metrics(const std::string& line);
  /// Replaces this attempt's account, some time soon.
  void keep_account(std::string text);
  /// Everything that was asked for is over. Errors: late.
  Result<> drain(const Deadline& by);
  /// After drain(): says in the hint and in the account that this attempt ended in an orderly way.
  void say_closed(const std::string& account);
  /// Gives up what is not begun; running jobs end at their next storage call.
  void stop() { stop_.request_stop(); }

  const Opened& opened() const { return opened_; }

 private:
  /// The saves of one step of this attempt.
  struct Step {
    std::uint64_t step = 0;
    std::uint32_t next_try = 0;
    std::shared_ptr<Saving> saving = nullptr;  ///< the last that was begun
  };

  Background(const Seams& seams, Opened opened, std::shared_ptr<Status> status, ShardWrites writes);
  /// Runs `job` on a lane and counts it for drain(). False: the executor took nothing.
  bool post(Lane lane, std::function<void(Background&)> job);
  /// The same for a job of one save, which is failed where the job throws or is not taken: nobody waits for
  /// it in vain.
  bool post_for(const std::shared_ptr<Saving>& saving, Lane lane, std::function<void(Background&)> job);
  /// The same without a word where it is not taken.
  bool enqueue(Lane lane, std::function<void(Background&)> job);
  /// Runs one that is counted already.
  void carry_out(const std::function<void(Background&)>& job);
  /// A job of this save did not come to its end.
  void lose(const std::shared_ptr<Saving>& saving, Error error);
  Deadline by() const;
  void note_loss(const Error& error);

  // On the strand:
  void commit_on_strand(const std::shared_ptr<Saving>& saving, const std::shared_ptr<Staging>& staging,
                        SaveFacts facts, Instant began);
  void remove_debris(const SaveId& save, const std::vector<std::string>& keys);
  /// Says once when the parameters cease to be finite, and once when they are again.
  void tell_health(bool is_finite);
  /// After a commit that ended in an error: settles in the journal whether the save is there, and gives the
  /// space of one that is not back.
  /// Of the metrics of a save: a COMMIT has room for some only. Once.
  void tell_left_out(const std::map<std::string, double>& noted, const std::map<std::string, double>& kept);
  void settle_failed(const SaveId& save, const std::optional<std::vector<std::string>>& debris,
                     const Error& error);
  void fail_save(const std::shared_ptr<Saving>& saving, Error error);
  void on_read_back(const std::shared_ptr<Saving>& saving, const Commit& commit, const Status::Cost& cost,
                    Result<ReadSave::Found> found);
  void tag_on_strand(const Saving& earlier, Saving& saving, const std::vector<std::string>& tags);
  void collect();
  /// Appends a record decided by `decide` while this attempt is the newest; keeps the fold. Errors as Append.
  Result<bool> append(Decide decide);

  // On the io lane:
  void note_times(const SaveId& save, const Status::Cost& cost, double verified_s);
  void read_back(const std::shared_ptr<Saving>& saving, const Commit& commit, const Status::Cost& cost);
  void write_metrics();
  void flush_account();

  /// From any thread: the lines of metrics that wait are handed to the storage now.
  void flush_metrics();
  void flush_metrics_at(Instant when);

  const Seams seams_;
  const Opened opened_;
  const std::shared_ptr<Status> status_;
  const ShardWrites writes_;
  const std::shared_ptr<std::atomic<unsigned>> waiting_ = std::make_shared<std::atomic<unsigned>>(0);
  std::stop_source stop_;
  std::atomic<std::size_t> jobs_{0}, saves_in_flight_{0};

  History history_;                   // strand only
  PinWatch pins_;                     // strand only
  bool has_told_left_out_ = false;    // strand only
  bool was_finite_ = true;            // strand only
  bool are_metrics_failing_ = false;  // by the one that flushes

  mutable std::mutex mutex_;
  Step newest_;                     // which was asked for
  std::string metrics_;             // lines not yet handed to the store
  std::optional<Instant> flushed_;  // when that was last asked for
  bool is_flush_wanted_ = false, is_writing_metrics_ = false, is_flush_timed_ = false;
  std::string account_;  // the newest, not yet handed to the store; empty where it was
};

}  // namespace unbroken
