#include "session/runtime.h"

#include <fmt/format.h>

#include <functional>

#include "base/layout.h"
#include "engine/start/crashes.h"
#include "engine/start/first_life.h"
#include "filestore/leftovers.h"
#include "filestore/probe.h"
#include "os/machine/near_processors.h"
#include "os/user/run_place.h"
#include "session/environment.h"
#include "session/provenance.h"
#include "world/advice.h"

namespace unbroken {

Runtime::Runtime(std::unique_ptr<OsFs> fs, std::unique_ptr<OsExecutor> executor, FileSystemKind kind)
    : fs_(std::move(fs)),
      kind_(std::move(kind)),
      store_(*fs_, clock_, random_, {.path = fs_->path(), .survives_node = kind_.is_shared}),
      executor_(std::move(executor)),
      seams_{clock_, random_, *executor_, store_, process_, kFoldEvery, pin_lasts(process_)} {}

Result<std::unique_ptr<Runtime>> Runtime::open(std::string_view directory, const RuntimeOptions& options) {
  const bool is_training = options.purpose == RuntimeOptions::Purpose::train;
  UNBROKEN_DO(use_environment(OsProcess()));
  if (is_training) UNBROKEN_DO(check_run_place(std::string(directory)));
  const WriteEngine engine = unbroken::write_engine(OsProcess());
  auto fs = OsFs::open(
      directory, {.is_created = false, .group = options.group, .is_joining = !is_training, .engine = engine});
  if (fs.is(Code::not_found)) {
    const OsProcess process;
    if (!is_training) return Error(Code::not_found, fmt::format("{}: no such directory", directory));
    if (options.has_sign && !options.is_fresh_allowed)
      return Error(Code::not_found,
                   fmt::format("{}: no such directory, so there is no checkpoint to resume from", directory));
    UNBROKEN_DO(check_no_earlier_life(process, std::string(directory), options.is_fresh_allowed));
    fs = OsFs::open(directory, {.is_created = true, .group = options.group, .engine = engine});
  }
  if (!fs.ok()) {
    Error error = advised(std::move(fs).error(), directory);
    if (is_training || error.code() != Code::bad_argument) return error;
    return Error(Code::not_found, error.what() + ", so it is not a run").next(error.next_command());
  }
  UNBROKEN_TRY(const DirectoryTrust trust, fs.value()->trust(kFolders));
  UNBROKEN_TRY(FileSystemKind kind, advised(fs.value()->kind(), fs.value()->path()));
  OsExecutorOptions lanes;
  if (const auto root = fs.value()->info(""); root.ok())
    lanes.io_processors = near_processors(root.value().device);
  UNBROKEN_TRY(std::unique_ptr<OsExecutor> executor, OsExecutor::start(std::move(lanes)));
  auto runtime =
      std::unique_ptr<Runtime>(new Runtime(std::move(fs).value(), std::move(executor), std::move(kind)));
  if (const std::string& note = runtime->fs_->engine_note(); !note.empty()) runtime->notes_.push_back(note);
  if (trust.is_owner_foreign)
    runtime->notes_.push_back(
        fmt::format("warning: {} belongs to user {}, not to you", runtime->path(), trust.owner));
  return runtime;
}

std::string_view Runtime::write_engine() const {
  if (fs_->engine() == WriteEngine::ring) return "io_uring";
  return fs_->engine() == WriteEngine::buffered ? "buffered" : "threads";
}

Result<> Runtime::probe(const Deadline& by) {
  return probe_store(store_, random_, by);
}

void Runtime::sweep(const Deadline& by) {
  sweep_leftovers(store_, by);
}

void Runtime::begin_load() {
  crash_ = std::make_unique<CrashNote>(fs_->path(), std::string(kCrashesKey), crash_mark(process_.self()));
}

std::map<std::string, std::string> provenance_of(const Runtime& runtime) {
  return provenance_of(runtime.seams().process, runtime.path());
}

Result<std::function<Result<>(const std::string&)>> tap_of(const Process& process) {
  const auto file = process.env("UNBROKEN_TAP");
  if (!file || file->empty()) return std::function<Result<>(const std::string&)>();
  const std::size_t slash = file->rfind('/');
  const std::string folder = slash == std::string::npos ? "." : file->substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? *file : file->substr(slash + 1);
  UNBROKEN_TRY(std::unique_ptr<OsFs> opened, OsFs::open(folder));
  const std::shared_ptr<OsFs> fs = std::move(opened);
  return std::function<Result<>(const std::string&)>([fs, name, file](const std::string& line) -> Result<> {
    auto done = fs->append(name, as_bytes(line + "\n"));
    if (!done.ok()) return std::move(done).error().with("UNBROKEN_TAP=" + *file);
    return Done{};
  });
}

}  // namespace unbroken
