// torch.save's zip: <top>/data.pkl beside one record <top>/data/<key> for each storage.
#include <fmt/format.h>

#include "exchange/foreign_files.h"
#include "exchange/pickle/unpickle.h"

namespace unbroken {

namespace {

constexpr std::uint64_t kPickleBytesMax = std::uint64_t{1} << 30;
constexpr std::string_view kPickle = "/data.pkl";

Error corrupt(std::string why) {
  return Error(Code::corrupt, std::move(why));
}

/// The one folder at the top.
Result<std::string> top_of(const Zip& zip) {
  std::string top;
  for (const auto& [name, record] : zip.records) {
    if (!name.ends_with(kPickle) || name.find('/') != name.size() - kPickle.size()) continue;
    if (!top.empty()) return corrupt("zip archive: it holds two files of torch.save");
    top = name.substr(0, name.size() - kPickle.size());
  }
  if (top.empty()) return corrupt("zip archive: there is no data.pkl in it, so torch.save did not write it");
  return top;
}

}  // namespace

Result<TorchArchive> TorchArchive::open(const ByteSource& source, std::uint32_t number, std::uint64_t at) {
  TorchArchive archive;
  archive.number_ = number;
  archive.at_ = at;
  UNBROKEN_TRY(archive.zip_, read_zip(source));
  UNBROKEN_TRY(archive.top_, top_of(archive.zip_));
  const std::string order_name = archive.top_ + "/byteorder";
  if (archive.zip_.records.contains(order_name)) {
    UNBROKEN_TRY(const std::string order, read_record(source, archive.zip_, order_name, 64));
    if (order != "little")
      return corrupt("its numbers are big-endian: this version reads little-endian ones");
  }
  UNBROKEN_TRY(const std::string pickle,
               read_record(source, archive.zip_, archive.top_ + std::string(kPickle), kPickleBytesMax));
  std::string_view rest = pickle;
  UNBROKEN_TRY(archive.root_, unpickle(rest, PickleDialect::torch_file, archive.heap_));
  if (!rest.empty()) return corrupt("pickle: something stands behind its end");
  return archive;
}

Result<StoragePlace> TorchArchive::find(const PickleValue& storage, ImportPlan& plan) {
  const std::string name = fmt::format("{}/data/{}", top_, storage.text);
  const auto it = zip_.records.find(name);
  if (it == zip_.records.end())
    return corrupt(fmt::format("storage {} is missing from the archive", storage.text));
  const ZipRecord& record = it->second;
  const std::uint64_t said = static_cast<std::uint64_t>(storage.number) * (bits_of(storage.dtype) / 8);
  if (record.bytes != said)
    return corrupt(
        fmt::format("storage {} has {} bytes, the pickle says {}", storage.text, record.bytes, said));
  if (is_checked_.emplace(name, true).second) {
    if (zip_.has_checksums)
      plan.checks.push_back({name, number_, at_ + record.offset, record.bytes, record.crc32});
    else
      plan.has_unchecked_bytes = true;
  }
  return StoragePlace{number_, at_ + record.offset};
}

Result<ImportPlan> read_torch_zip(const ByteSource& file, LeftOut without) {
  UNBROKEN_TRY(TorchArchive archive, TorchArchive::open(file, 0, 0));
  return plan_with_names([&](Naming naming) -> Result<ImportPlan> {
    ImportPlan plan;
    archive.forget_checks();
    StateTaker taker(
        archive.heap(), [&](const PickleValue& storage) { return archive.find(storage, plan); }, naming, plan,
        without);
    UNBROKEN_TRY(plan.tree, taker.take_file(archive.root()));
    return plan;
  });
}

}  // namespace unbroken
