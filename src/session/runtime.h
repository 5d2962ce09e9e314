#pragma once
// The real world under one run directory: files, threads, clock, chance, process; and the engine's seams on
// it.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/seams.h"
#include "filestore/file_store.h"
#include "os/crash_note.h"
#include "os/memory/idle_thread.h"
#include "os/os_clock.h"
#include "os/os_executor.h"
#include "os/os_fs.h"
#include "os/os_process.h"

namespace unbroken {

struct RuntimeOptions {
  enum class Purpose : std::uint8_t {
    train,  ///< the directory is made where it is missing and nothing says that the job ran before
    look,   ///< nothing is made or written
  };
  Purpose purpose = Purpose::train;
  std::string group;
  bool is_fresh_allowed = false;
  bool has_sign = false;  ///< the caller knows of an earlier life
};

class Runtime {
 public:
  /// Errors: not_found (no such directory), bad_argument (writable by everybody), unavailable.
  static Result<std::unique_ptr<Runtime>> open(std::string_view directory, const RuntimeOptions& options);
  const Seams& seams() const { return seams_; }
  const std::string& path() const { return fs_->path(); }  ///< absolute
  /// What a checkpoint here outlives: "process" or "node".
  std::string_view survives() const { return kind_.is_shared ? "node" : "process"; }
  /// How shards are written, as UNBROKEN_IO calls it: "threads", "io_uring" or "buffered".
  std::string_view write_engine() const;
  /// Lines for a person: a foreign owner, storage that survives little.
  const std::vector<std::string>& notes() const { return notes_; }
  void note(std::string line) { notes_.push_back(std::move(line)); }
  /// Is this storage fit for a journal?
  Result<> probe(const Deadline& by);
  /// Removes what killed processes left (filestore/leftovers.h); for the owner alone.
  void sweep(const Deadline& by);
  /// Calls `work` until it returns false, when nobody else wants the processor. One such work at a time.
  void do_idly(std::function<bool()> work) { idle_ = std::make_unique<IdleThread>(std::move(work)); }
  /// Between the two a crash of this process is noted in the run (engine/start/crashes.h).
  void begin_load();
  void end_load() { crash_.reset(); }

 private:
  Runtime(std::unique_ptr<OsFs> fs, std::unique_ptr<OsExecutor> executor, FileSystemKind kind);

  OsClock clock_;
  OsRandom random_;
  OsProcess process_;
  std::unique_ptr<OsFs> fs_;
  FileSystemKind kind_;
  FileStore store_;
  std::unique_ptr<OsExecutor> executor_;  // ends first: its workers use the rest
  Seams seams_;
  std::vector<std::string> notes_;
  std::unique_ptr<CrashNote> crash_;
  std::unique_ptr<IdleThread> idle_;
};

/// What a manifest says of where a checkpoint came from (session/provenance.h).
std::map<std::string, std::string> provenance_of(const Runtime& runtime);

/// Where a drill listens (UNBROKEN_TAP names a file): a function that adds a line to it; empty where none
/// does. Errors: those of opening it.
Result<std::function<Result<>(const std::string&)>> tap_of(const Process& process);

}  // namespace unbroken
