#include "cli/exchange/foreign_state.h"

#include <fmt/format.h>

#include <functional>

#include "exchange/foreign_files.h"
#include "os/sandbox.h"

namespace unbroken {

namespace {

constexpr std::size_t kFilesMax = 4096;
constexpr std::uint64_t kMetadataBytesMax = std::uint64_t{1} << 30;

/// A plan made in the sandbox, which keeps `files`.
Result<ImportPlan> plan_in_sandbox(const std::vector<int>& files,
                                   const std::function<Result<ImportPlan>()>& read) {
  UNBROKEN_TRY(const std::string answer, run_in_sandbox(files, [&]() -> Result<std::string> {
                 UNBROKEN_TRY(const ImportPlan plan, read());
                 return encode_plan(plan);
               }));
  return decode_plan(answer);
}

Result<ForeignState> read_file(const std::string& path, LeftOut without) {
  ForeignState out;
  UNBROKEN_TRY(UserFileReader file, UserFileReader::open(path));
  out.files.push_back(std::make_unique<UserSource>(std::move(file)));
  const UserSource& source = *out.files.front();
  UNBROKEN_TRY(const ForeignKind kind, foreign_kind(source));
  if (!is_pickled(kind)) {
    UNBROKEN_TRY(out.plan, read_safetensors(source, without));
  } else {
    UNBROKEN_TRY(out.plan, plan_in_sandbox({source.number()}, [&] {
                   return kind == ForeignKind::torch_zip ? read_torch_zip(source, without)
                                                         : read_torch_legacy(source, without);
                 }));
  }
  return out;
}

Result<ForeignState> read_directory(const std::string& path, LeftOut without) {
  ForeignState out;
  UNBROKEN_TRY(const std::vector<std::string> names, list_user_folder(path));
  auto opened = UserFileReader::open_in(path, ".metadata");
  if (opened.is(Code::not_found))
    return Error(Code::not_found,
                 "there is no .metadata in it, so it is no checkpoint of "
                 "torch.distributed.checkpoint, or not a whole one");
  if (!opened.ok()) return std::move(opened).error();
  const UserSource metadata(std::move(opened).value());
  std::vector<int> numbers{metadata.number()};
  NumberedSources sources;
  for (const std::string& name : names) {
    if (!name.ends_with(".distcp")) continue;
    if (out.files.size() == kFilesMax)
      return Error(Code::unsupported, fmt::format("more than {} files of tensors are not read", kFilesMax));
    UNBROKEN_TRY(UserFileReader file, UserFileReader::open_in(path, name));
    out.files.push_back(std::make_unique<UserSource>(std::move(file)));
    numbers.push_back(out.files.back()->number());
    sources[name] = {static_cast<std::uint32_t>(out.files.size() - 1), out.files.back().get()};
  }
  UNBROKEN_TRY(out.plan, plan_in_sandbox(numbers, [&]() -> Result<ImportPlan> {
                 UNBROKEN_TRY(const std::string text,
                              read_range(metadata, 0, metadata.bytes(), kMetadataBytesMax));
                 return read_dcp(text, sources, without);
               }));
  return out;
}

}  // namespace

ForeignFiles ForeignState::sources() const {
  ForeignFiles out;
  for (const auto& file : files) out.push_back(file.get());
  return out;
}

Result<> ForeignState::check() const {
  std::vector<std::uint64_t> sizes;
  for (const auto& file : files) sizes.push_back(file->bytes());
  return check_plan(plan, sizes);
}

Result<ForeignState> read_foreign_state(const std::string& path, LeftOut without) {
  return is_user_folder(path) ? read_directory(path, without) : read_file(path, without);
}

}  // namespace unbroken
