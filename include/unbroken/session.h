#pragma once
// A training run that survives: attach what it is made of, restore, step, close.
//
//     auto opened = unbroken::Session::open("runs/mlp", {.every = "50"});
//     if (!opened.ok()) return unbroken::exit_with(opened.error());  // so for every Result below
//     unbroken::Session run = std::move(opened).value();
//     run.attach("model", {unbroken::contiguous_view("w", unbroken::DType::f32, {784, 64}, w.data())});
//     for (auto step = run.restore().value(); step < 1000;) { train(); run.step(++step, {{"loss", loss}}); }
//     run.close();
//
// Everything is called from one thread, the one that trains. Saving goes on in threads of the session.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unbroken/exit_code.h"
#include "unbroken/result.h"
#include "unbroken/tensor.h"

namespace unbroken {

/// A step whose metric is better than that of every checkpoint is saved.
struct KeepBest {
  std::string metric;
  std::string mode = "min";  ///< or "max"
};

struct RunOptions {
  std::string every = "auto";  ///< steps ("50"), a duration ("10min"), or "auto"
  std::string mtti = {};  ///< mean time to interruption that you expect ("4h"); UNBROKEN_MTTI says it instead
  std::string rpo = {};   ///< of "auto": never lose more than this ("10min")
  std::string every_min = {}, every_max = {};  ///< of "auto": bounds of the interval
  std::uint32_t keep_last = 3;                 ///< checkpoints kept, of which at least two were read back
  std::uint64_t keep_every = 0;  ///< checkpoints of steps that are multiples of it are saved and kept
  std::optional<KeepBest> keep_best = {};  ///< the checkpoint with the best value of a metric is kept
  std::string resume = "newest";           ///< or "1200", "1200.a3", "best:loss", "tag:NAME"
  /// A save that falls due while one is in flight: "skip" counts it, "wait" waits for the other, for at most
  /// `max_wait` ("30s"), and skips it then.
  std::string busy = "skip", max_wait = {};
  /// At most so much memory for snapshots ("8GiB"). By default one or two times the state, as far as the
  /// machine and the cgroup have it. With less, a save lets the training wait until the storage has taken it.
  std::string arena = {};
  std::string max_bandwidth = {};  ///< at which a save is written, at most ("200MB/s")
  bool is_fresh_allowed = false;   ///< permits a start from nothing where nothing valid is left
  bool is_takeover = false;        ///< takes the run from an owner that is alive
  bool raises_on_save_error = false;
  std::string group = {};  ///< files are readable and writable by this group
};

class Session {
 public:
  /// Opens the directory; reads and writes nothing of the run yet. UNBROKEN_DIR replaces the first
  /// directory of a process, UNBROKEN_DIR.<k>.<last component> the k-th. What is refused creates nothing.
  /// Errors: bad_argument (options; a directory that everybody may write), unavailable.
  static Result<Session> open(std::string_view directory, RunOptions options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  /// Ends without waiting for saves in flight; close() first.
  ~Session();

  /// Before restore(). The memory behind the views stays where it is until close(). Errors: bad_argument (a
  /// name twice, a view that cannot be read or is not contiguous).
  Result<> attach(std::string_view name, std::vector<TensorView> tensors);
  /// Finds the checkpoint to go on from and reads it into what is attached. The number of completed steps.
  /// Errors: mismatch (nothing was written or changed), not_found, journal_unreadable, corrupt, bad_argument,
  /// unavailable, no_space; stopped where a SIGTERM came since open().
  Result<std::uint64_t> restore();
  /// After each completed step, counted from 1. Saves when one is due; the first step of a life always.
  /// Errors: bad_argument (metrics called "step" or "attempt", which are ours; a step that is not later);
  /// fenced; stopped once a SIGTERM asked for the end and the state is saved, unsaved where it could
  /// not be (leave with exit_with()); failed saves where those are to be raised.
  Result<> step(std::uint64_t completed, const std::vector<std::pair<std::string, double>>& metrics = {});
  /// Saves the state after the last completed step and waits until it is durable. Its name: "1200.a3". With
  /// a tag (of letters, digits, `.`, `_`, `-`) it is kept until `unbroken unkeep`.
  /// Errors: bad_argument (no step is completed yet; no such tag is possible), fenced, unavailable, no_space.
  Result<std::string> save(std::string_view tag = {});
  /// The last checkpoint is durable, nothing is in flight, ownership ends. Errors: that of the last save;
  /// stopped where a SIGTERM came after the last step.
  Result<> close();

  std::optional<std::string> newest() const;
  /// UNBROKEN_STEPS caps `steps`.
  std::uint64_t steps_of(std::uint64_t steps) const;

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Prints one `error:` line on stderr, with the next command, and gives the status to leave with.
int exit_with(const Error& error);

}  // namespace unbroken
