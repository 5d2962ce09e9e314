#pragma once
// One life of a run, as the trainer's thread sees it: restore, step, save, close. It decides on no storage
// state itself; it takes snapshots, and the background makes them true.
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cadence/schedule.h"
#include "engine/background.h"
#include "engine/opening.h"
#include "engine/saving.h"
#include "engine/status.h"
#include "snapshot/arena.h"
#include "snapshot/tensor_view.h"

namespace unbroken {

struct EngineOptions {
  OpenOptions open;
  Schedule schedule = Schedule::automatic();
  bool raises_on_save_error = false;
  std::map<std::string, std::string> provenance;
  /// Receives one line per completed step while a drill watches; empty else.
  std::function<Result<>(const std::string&)> tap;
};

using Metrics = std::vector<std::pair<std::string, double>>;
/// State that is not a tensor: name and canonical JSON.
using TapValues = std::vector<std::pair<std::string, std::string>>;

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

  /// A completed step. Errors: fenced (a newer attempt owns the run); the failure of an earlier save where
  /// those are to be raised; bad_argument (closed; a metric whose name is no text).
  Result<> boundary(std::uint64_t step, const Metrics& metrics);
  /// Should the state after `step` be saved? One that falls due while another is in flight is skipped and
  /// counted.
  bool is_due(std::uint64_t step);
  /// Takes a snapshot (the live state may change once this returns) and hands it to the background. A step
  /// that this attempt saved already gives that save again. Waits where every snapshot slot is in use.
  /// Errors: fenced, bad_argument (closed; a view that cannot be read), unavailable (no memory), late,
  /// stopped.
  Result<std::shared_ptr<Saving>> save(std::uint64_t step, const StateView& state, const Metrics& metrics,
                                       const Deadline& by);

  bool has_tap() const { return static_cast<bool>(options_.tap); }
  /// The whole state after a step, for a drill: metrics by bits, every tensor by digest, the rest as text.
  Result<> tap(std::uint64_t step, const Metrics& metrics, std::span<const TensorView> tensors,
               const TapValues& values);

  Result<> drain(const Deadline& by);
  /// Ends this life; saves in flight finish before. Idempotent.
  /// Errors: late (it is still open); fenced (it is closed; saves since then are lost).
  Result<> close(const Deadline& by);

  const Status& status() const { return *status_; }
  Status& status() { return *status_; }
  Executor& executor() const { return seams_.executor; }

 private:
  const Seams seams_;
  EngineOptions options_;
  std::shared_ptr<Status> status_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<Background> background_;
  bool is_closed_ = false;
};

}  // namespace unbroken
