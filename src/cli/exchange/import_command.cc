// `unbroken import`: a foreign checkpoint as a run.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/exchange/foreign_state.h"
#include "cli/progress.h"
#include "os/user/run_place.h"
#include "os/user/user_path.h"
#include "os/user/work_folder.h"
#include "session/environment.h"
#include "session/runtime.h"
#include "session/settings.h"
#include "transfer/import_run.h"
#include "world/advice.h"

namespace unbroken {

namespace {

struct ImportRequest {
  std::string from, to, step = "0";
  std::vector<std::string> without;
  bool is_json = false;
};

std::uint64_t bytes_of(const ImportPlan& plan) {
  std::uint64_t bytes = 0;
  for (const ChecksummedRange& range : plan.checks) bytes += range.bytes;
  for (const ImportedTensor& tensor : plan.tensors) bytes += byte_size(tensor.dtype, tensor.shape).value();
  return bytes;
}

/// Writes the run into a folder of our own.
Result<ImportedRun> write_run(const ForeignState& foreign, const ImportRequest& request, std::uint64_t step,
                              const std::string& folder) {
  UNBROKEN_TRY(
      std::unique_ptr<Runtime> runtime,
      Runtime::open(folder,
                    {.purpose = RuntimeOptions::Purpose::train, .group = {}, .is_fresh_allowed = true}));
  const Seams& seams = runtime->seams();
  const Deadline by = seams.within(kCallLimit);
  std::atomic<std::uint64_t> done{0};
  const Progress progress(
      "importing", bytes_of(foreign.plan), [&done] { return done.load(); }, seams.clock, seams.executor);
  const auto tell = [&done](std::uint64_t bytes) { done.fetch_add(bytes); };
  const ForeignFiles files = foreign.sources();
  UNBROKEN_DO(verify_checksums(foreign.plan, files, tell));
  std::map<std::string, std::string> provenance = provenance_of(*runtime);
  provenance["directory"] = absolute_path(request.to);
  provenance["imported_from"] = absolute_path(request.from);
  return import_run(seams, foreign.plan, files,
                    {.step = step,
                     .provenance = std::move(provenance),
                     .probe = [&runtime](const Deadline& until) { return runtime->probe(until); },
                     .tell = tell},
                    by);
}

/// Whatever is wrong with the foreign file; nothing of ours helps against that.
Error about(Error error, const std::string& path) {
  error = advised(about_file(std::move(error), path), path);
  return error.next_command().empty() ? std::move(error).next("ls -la " + shell_word(path)) : error;
}

/// What leaves out all that was refused; empty where that would leave nothing.
std::string without_refused(const ImportRequest& request, const std::vector<ImportRemark>& refused) {
  std::set<std::string> entries(request.without.begin(), request.without.end());
  for (const ImportRemark& remark : refused) {
    if (remark.entry.empty()) return {};
    entries.insert(remark.entry);
  }
  std::string out =
      fmt::format("unbroken import {} --to {}", shell_word(request.from), shell_word(request.to));
  if (request.step != "0") out += " --step " + request.step;
  for (const std::string& entry : entries) out += " --without " + shell_word(entry);
  return out;
}

/// The foreign state, whole but for what --without names.
Result<ForeignState> read_state(const ImportRequest& request) {
  auto foreign = read_foreign_state(request.from, request.without);
  if (!foreign.ok()) return about(std::move(foreign).error(), request.from);
  const ImportPlan& plan = foreign.value().plan;
  if (auto fine = foreign.value().check(); !fine.ok()) {
    const std::string next = without_refused(request, plan.refused);
    Error error = std::move(fine).error();
    return about(plan.refused.empty() || next.empty() ? std::move(error) : std::move(error).next(next),
                 request.from);
  }
  for (const std::string& glob : request.without)
    if (std::none_of(plan.left_out.begin(), plan.left_out.end(),
                     [&glob](const std::string& name) { return glob_matches(glob, name); }))
      return Error(Code::bad_argument,
                   fmt::format("--without {}: {} has no entry of that name", glob, request.from));
  return foreign;
}

void say_remarks(const ImportPlan& plan, const std::string& from) {
  for (const ImportRemark& remark : plan.changed)
    say(fmt::format("note: {} comes back as {}", remark.name, remark.what));
  if (plan.has_unchecked_bytes)
    say(fmt::format("note: {} carries no checksums, so damage in it cannot be seen", from));
}

Result<int> import_checkpoint(const ImportRequest& request) {
  const auto step = parse_u64(request.step, 999'999'999'999);
  if (!step.ok())
    return Error(Code::bad_argument, fmt::format("--step {}: it is no number of steps", request.step));
  UNBROKEN_DO(check_environment(OsProcess()));
  UNBROKEN_DO(check_run_place(request.to));
  std::string to = request.to;
  while (to.size() > 1 && to.ends_with('/')) to.pop_back();
  if (is_there(to) && !is_empty_folder(to))
    return Error(Code::bad_argument,
                 fmt::format("{}: it is there already: a new run needs a place of its own", to))
        .next(fmt::format("unbroken import {} --to {}-2", shell_word(request.from), shell_word(to)));
  UNBROKEN_TRY(const ForeignState foreign, read_state(request));
  UNBROKEN_TRY(const std::string folder,
               make_work_folder(folder_of(to), fmt::format(".{}.importing", last_name_of(to))));
  auto imported = write_run(foreign, request, step.value(), folder);
  auto moved = imported.ok() ? move_folder(folder, to) : Result<>(Done{});
  if (!imported.ok() || !moved.ok()) remove_work_folder(folder);
  if (imported.is(Code::corrupt)) return about(std::move(imported).error(), request.from);
  if (!imported.ok()) return std::move(imported).error();
  UNBROKEN_DO(moved);
  const ImportedRun& run = imported.value();
  say_remarks(foreign.plan, request.from);
  if (request.is_json) {
    UNBROKEN_DO(print_json({{"run", run.run},
                            {"directory", to},
                            {"name", run.commit.save.name()},
                            {"step", run.commit.save.step},
                            {"attempt", run.commit.save.attempt},
                            {"tensors", run.tensors},
                            {"bytes", run.commit.state_bytes}}));
  } else {
    UNBROKEN_DO(
        print(fmt::format("{}: checkpoint {}, {} tensors, {}\n", printable(to), run.commit.save.name(),
                          run.tensors, format_bytes(run.commit.state_bytes))));
  }
  return 0;
}

}  // namespace

int import_command(int argc, char** argv) {
  CLI::App app("A foreign checkpoint as a run: safetensors, torch.save, torch.distributed.checkpoint",
               "unbroken import");
  ImportRequest request;
  app.add_option("FROM", request.from, "a .safetensors, .pt, .pth or .bin file, or a DCP directory")
      ->required();
  app.add_option("--to", request.to, "the new run's directory")->required();
  app.add_option("--without", request.without,
                 "leave out entries of this name (a glob), given again for more")
      ->allow_extra_args(false);
  app.add_option("--step", request.step, "completed steps that it stands for")->capture_default_str();
  app.add_flag("--json", request.is_json, "one JSON object");
  return run_command(app, argc, argv, [&] { return import_checkpoint(request); });
}

}  // namespace unbroken
