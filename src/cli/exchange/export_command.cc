// `unbroken export`: tensors of a checkpoint as one safetensors file, verified while they are read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look.h"
#include "cli/progress.h"
#include "os/user/user_path.h"
#include "state/names.h"
#include "transfer/export_shard.h"
#include "world/advice.h"

namespace unbroken {

namespace {

struct ExportRequest {
  std::string directory, at = "newest", to;
  std::vector<std::string> only;
  bool is_forced = false, is_json = false;
};

/// The attach names: keys at the top of the tree, as they begin a name.
std::vector<std::string> attach_names(const Index& index) {
  std::vector<std::string> out;
  if (const auto* top = std::get_if<Dict>(&index.tree.value))
    for (const DictItem& item : top->items) out.push_back(segment_of_key(item.key));
  return out;
}

/// What --only chooses, by the names they get: one attach name alone is left out of them.
Result<std::vector<ExportedTensor>> select(const Index& index, const std::vector<std::string>& only) {
  std::map<std::string, const IndexedTensor*> all;
  for (const IndexedTensor& tensor : index.tensors) all[tensor.name] = &tensor;
  for (const Alias& alias : index.aliases) all[alias.name] = all.at(alias.of);
  const std::vector<std::string> roots = attach_names(index);
  std::vector<std::string> prefixes, globs;
  for (const std::string& pattern : only) {
    const std::string segment = segment_of(pattern);
    const bool is_root = std::find(roots.begin(), roots.end(), segment) != roots.end();
    (is_root ? prefixes : globs).push_back(is_root ? segment : pattern);
  }
  const bool is_one = only.size() == 1 && prefixes.size() == 1;
  std::vector<ExportedTensor> out;
  for (const auto& [name, tensor] : all) {
    const auto below = [&name = name](const std::string& root) {
      return name == root || name.starts_with(root + ".");
    };
    const bool is_wanted = only.empty() || std::any_of(prefixes.begin(), prefixes.end(), below) ||
                           std::any_of(globs.begin(), globs.end(), [&name = name](const std::string& glob) {
                             return glob_matches(glob, name);
                           });
    if (!is_wanted) continue;
    if (tensor->box)
      return Error(Code::unsupported, fmt::format("{}: a part of a sharded tensor cannot be exported", name));
    const bool is_shortened = is_one && name != prefixes.front();
    out.push_back({is_shortened ? name.substr(prefixes.front().size() + 1) : name, tensor});
  }
  if (out.empty() && !only.empty())
    return Error(Code::bad_argument, fmt::format("--only {}: no tensor has such a name; what is attached: {}",
                                                 fmt::join(only, " --only "), fmt::join(roots, ", ")));
  return out;
}

struct Exported {
  SaveId save;
  std::size_t tensors;
  std::uint64_t bytes;
};

Result<Exported> write_file(const Look& look, const Reader& reader, const ExportRequest& request) {
  const SavedState& saved = reader.saved();
  UNBROKEN_TRY(const std::vector<ExportedTensor> tensors, select(saved.index, request.only));
  UNBROKEN_TRY(const ShardPlan plan, plan_export(tensors));
  UNBROKEN_TRY(NewUserFile file, NewUserFile::create(request.to));
  std::atomic<std::uint64_t> done{0};
  {
    const Progress progress(
        "exporting", saved.index.file_bytes, [&done] { return done.load(); }, look.seams().clock,
        look.seams().executor);
    const ExportSink sink{
        .write = [&file](std::uint64_t offset, Bytes bytes) { return file.write(offset, bytes); },
        .tell = [&done](std::uint64_t bytes) { done.fetch_add(bytes); }};
    UNBROKEN_DO(export_shard(look.seams(), saved, tensors, plan, sink, look.by()));
  }
  UNBROKEN_DO(file.finish(request.is_forced ? NewUserFile::IfThere::replace : NewUserFile::IfThere::refuse));
  return Exported{saved.commit.save, tensors.size(), plan.file_bytes};
}

Error with_force(Error error, const ExportRequest& request) {
  return std::move(error).next(fmt::format("unbroken export {} {} --to {} --force",
                                           shell_word(request.directory), request.at,
                                           shell_word(request.to)));
}

Result<int> export_from(const Look& look, Reader& reader, const ExportRequest& request) {
  if (is_there(request.to) && !request.is_forced)
    return with_force(Error(Code::bad_argument, fmt::format("{}: it is there already", request.to)), request);
  auto written = write_file(look, reader, request);
  while (written.is(Code::corrupt) && request.at == "newest") {
    const Error damage = written.error();
    const SaveId save = reader.saved().commit.save;
    if (auto older = reader.next_older(look.by()); !older.ok())
      return pointing_to_list(std::move(older).error(), request.directory);
    say(fmt::format("warning: checkpoint {} is damaged ({}): exporting {}", save.name(), damage.what(),
                    reader.saved().commit.save.name()));
    written = write_file(look, reader, request);
  }
  if (!written.ok()) {
    Error error = std::move(written).error();
    const bool is_in_the_way =
        error.code() == Code::bad_argument && is_there(request.to) && !request.is_forced;
    return is_in_the_way ? with_force(std::move(error), request)
                         : pointing_to_list(std::move(error), request.directory);
  }
  const Exported& exported = written.value();
  if (request.is_json) {
    UNBROKEN_DO(print_json({{"file", request.to},
                            {"name", exported.save.name()},
                            {"step", exported.save.step},
                            {"attempt", exported.save.attempt},
                            {"tensors", exported.tensors},
                            {"bytes", exported.bytes}}));
  } else {
    UNBROKEN_DO(print(fmt::format("{}: {} tensors of checkpoint {}, {}\n", printable(request.to),
                                  exported.tensors, exported.save.name(), format_bytes(exported.bytes))));
  }
  return 0;
}

Result<int> export_checkpoint(const ExportRequest& request) {
  if (!request.to.ends_with(".safetensors"))
    return Error(Code::bad_argument,
                 fmt::format("--to {}: a name that ends in .safetensors is needed: that is "
                             "what is written",
                             request.to));
  if (is_user_folder(request.to))
    return Error(Code::bad_argument,
                 fmt::format("--to {}: a directory stands there, and a file is written", request.to))
        .next(fmt::format("unbroken export {} {} --to {}/checkpoint.safetensors",
                          shell_word(request.directory), request.at, shell_word(request.to)));
  if (const std::string folder = folder_of(request.to); !is_user_folder(folder))
    return Error(Code::bad_argument, fmt::format("--to {}: there is no directory {}", request.to, folder))
        .next(fmt::format("mkdir -p {}", shell_word(folder)));
  UNBROKEN_TRY(const Look look, look_at(request.directory));
  UNBROKEN_TRY(Reader reader, read_at(look, request.directory, request.at, "exporting", Hold::if_alive));
  auto done = export_from(look, reader, request);
  (void)reader.close(look.by());  // the file is whole without it
  return done;
}

}  // namespace

int export_command(int argc, char** argv) {
  CLI::App app("Tensors of a checkpoint as one safetensors file", "unbroken export");
  ExportRequest request;
  app.add_option("DIR", request.directory, "the run's directory")->required();
  app.add_option("AT", request.at, kAtHelp);
  app.add_option("--to", request.to, "the file, NAME.safetensors")->required();
  app.add_option(
         "--only", request.only,
         "an attach name, or a glob over names; may be given again. A single attach name is left out of "
         "the names in the file")
      ->expected(1)
      ->take_all();
  app.add_flag("--force", request.is_forced, "replace a file that is there");
  app.add_flag("--json", request.is_json, "one JSON object");
  return run_command(app, argc, argv, [&] { return export_checkpoint(request); });
}

}  // namespace unbroken
