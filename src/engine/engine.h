#pragma once
// One life of a run, as the trainer's thread sees it: restore, step, save, close. It decides on no storage
// state itself; it takes snapshots, and the background makes them true.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/background.h"
#include "engine/opening.h"
#include "engine/pace/pace.h"
#include "engine/saving.h"
#include "engine/status.h"
#include "snapshot/arena.h"
#include "snapshot/staging.h"

namespace unbroken {

struct EngineOptions {
  OpenOptions open;
  PaceOptions pace;
  bool raises_on_save_error = false;
  /// A save that falls due while one is in flight waits so long for it, and is skipped then.
  Duration busy_wait = Duration::zero();
  ArenaLimits arena;  ///< of the memory for snapshots
  ShardWrites writes;
  std::map<std::string, std::string> provenance;
  /// Makes the meter of a save; empty: nobody counts.
  std::function<std::shared_ptr<CpuMeter>()> meter = {};
  /// Receives one line per completed step while a drill watches; empty else.
  std::function<Result<>(const std::string&)> tap;
};

using Metrics = std::vector<std::pair<std::string, double>>;
/// What is known of a state that is to be saved.
struct SaveWish {
  Metrics metrics = {};  ///< of the boundary that it stands at
  std::vector<std::string> tags = {};
  bool is_waited_for = false;    ///< somebody will wait until it is durable: its writes give way to nobody
  bool is_proved_whole = false;  ///< prove of every byte that is copied later that nobody wrote it meanwhile
};
/// State that is not a tensor: name and canonical JSON.
using TapValues = std::vector<std::pair<std::string, std::string>>;

struct EngineStats {
  Status::Saves saves;
  std::uint64_t arena_bytes = 0;
  std::vector<std::string>
      distrusted;         ///< tensors that were written while they were copied, and are not again
  double step_s = 0;      ///< without saves, smoothed
  double interval_s = 0;  ///< work between two saves, as planned
  double decide_ns = 0;   ///< mean cost of one decision
};

/// Threads: one, the trainer's.
class Engine {
 public:
  Engine(const Seams& seams, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Once. Errors as open_run().
  Result<> restore(Loader& loader, const Deadline& by);
  bool is_open() const { return background_ != nullptr; }
  const Opened& opened() const { return background_->opened(); }

  /// A step was completed. Errors: fenced (a newer attempt owns the run); the failure of an earlier save
  /// where those are to be raised; bad_argument (closed).
  Result<> boundary(std::uint64_t step);
  /// Metrics of a completed step, in order of steps; they may come later than its boundary, when they have
  /// reached the host. Errors: bad_argument (closed; a metric whose name is no text).
  Result<> log(std::uint64_t step, const Metrics& metrics);
  /// Should the state after `step` be saved? One that falls due by a given schedule while another is in
  /// flight waits, or is skipped and counted, as the options say.
  bool is_due(std::uint64_t step);
  /// Is the metric of keep_best among these, finite, and better than that of every checkpoint of the run and
  /// every save on its way? The state at hand is to be saved then, whatever else is in flight.
  bool is_best(const Metrics& metrics);
  /// The loop waits from here on, for a save that follows: what the caller gathers for it is part of its
  /// cost.
  void begin_save() {
    if (!stalled_since_) stalled_since_ = seams_.clock.now();
  }
  /// Takes a snapshot and hands it to the background. The live state may change once this returns, but for
  /// `state.later`, which may after fence(). Where one of those was written before, the save fails, its
  /// tensor is copied at once from then on, and the next step is due. A step
  /// that this attempt saved already gives that save again; new tags of it are added, and the save that
  /// comes back is durable when they are. Waits where there is no memory for a snapshot beside those in use.
  /// Errors: fenced, bad_argument (closed; a view that cannot be read), unavailable (no memory), late,
  /// stopped. All but the first and a closed run are counted and told as those of the background are.
  Result<std::shared_ptr<Saving>> save(std::uint64_t step, StateView state, const SaveWish& wish,
                                       const Deadline& by);
  /// Makes memory for snapshots of so many bytes ahead of the first, where it is certainly there beside the
  /// `needed_besides` that the caller is going to take. What comes back touches some of it, and false says
  /// that nothing is left to do; empty: there is none. Threads: what comes back one, any, its end too.
  std::function<bool()> reserve(std::uint64_t bytes, std::uint64_t needed_besides);
  /// Returns when everything that was to be copied later is copied. The wait is part of what the save cost.
  /// Threads: any.
  void fence();

  /// A save of this step failed before save() could be called.
  void save_failed(std::uint64_t step, const Error& error);
  /// Adds to the provenance of the saves from here on.
  void describe(const std::string& key, std::string value) { options_.provenance[key] = std::move(value); }
  bool has_tap() const { return static_cast<bool>(options_.tap); }
  /// The whole state after a step, for a drill: metrics by bits, every tensor by digest, the rest as text;
  /// and what has a state that no checkpoint will hold, by the names that the caller gives.
  Result<> tap(std::uint64_t step, const Metrics& metrics, std::span<const TensorView> tensors,
               const TapValues& values, const TapValues& not_attached = {});

  Result<> drain(const Deadline& by);
  /// Ends this life; saves in flight finish before. Idempotent. `code`: the status that the process will end
  /// with, for whoever asks how this life ended.
  /// Errors: late (it is still open); fenced (it is closed; saves since then are lost).
  Result<> close(const Deadline& by, std::optional<int> code = std::nullopt);

  EngineStats stats() const;
  const Status& status() const { return *status_; }
  Status& status() { return *status_; }
  Executor& executor() const { return seams_.executor; }

 private:
  const Seams seams_;
  EngineOptions options_;
  std::shared_ptr<Status> status_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<Background> background_;
  void follow_costs(Instant now);
  Result<std::shared_ptr<Staging>> stage(StateView state, bool is_proved_whole, const Deadline& by);
  std::optional<double> best_so_far();

  struct BestSave {
    std::shared_ptr<Saving> saving;
    double value;
  };
  std::optional<double> best_;        ///< of what was read back
  std::vector<BestSave> best_saves_;  ///< on their way, each better than the one before

  std::optional<Pace> pace_;  ///< from restore() on
  std::optional<Instant> stalled_since_;
  /// A save of which something is copied later.
  struct Open {
    std::weak_ptr<Staging> staging;
    std::shared_ptr<Staging> watched;  ///< the same, where all of it is to be looked at again in the fence
    std::shared_ptr<SaveTimes> times;
    std::shared_ptr<CpuMeter> cpu;
  };
  std::mutex mutex_;        ///< fence() may be called from a thread that is not the trainer's
  std::vector<Open> open_;  ///< with the mutex held
  void distrust(const std::vector<std::string>& written);
  LastPlan last_plan_;
  bool has_told_streamed_ = false;
  std::uint64_t later_saves_ = 0;  ///< of which something was
  std::size_t distrusted_ = 0;     ///< tensors, when a save was begun last
  double decided_s_ = 0;
  std::uint64_t decisions_ = 0;
  bool is_closed_ = false;
};

}  // namespace unbroken
