#pragma once
// Readers of foreign checkpoints: each turns a file, or a directory of them, into a plan of what is where. No
// tensor byte is read here, and nothing of a file is run.
#include <map>
#include <string>

#include "exchange/import_plan.h"
#include "exchange/source.h"
#include "exchange/take_state.h"
#include "exchange/zip.h"

namespace unbroken {

enum class ForeignKind : std::uint8_t {
  safetensors,
  torch_zip,     ///< torch.save since 1.6
  torch_legacy,  ///< before, and with _use_new_zipfile_serialization=False
};
/// By its first bytes; what it is called says nothing. Errors: corrupt (none of them); unavailable.
Result<ForeignKind> foreign_kind(const ByteSource& file);
/// Does reading it take a pickle, which belongs into a sandbox?
constexpr bool is_pickled(ForeignKind kind) {
  return kind != ForeignKind::safetensors;
}

/// A file, as file 0 of the plan. Errors: corrupt, naming what is wrong; unavailable.
Result<ImportPlan> read_safetensors(const ByteSource& file, LeftOut without = {});
Result<ImportPlan> read_torch_zip(const ByteSource& file, LeftOut without = {});
Result<ImportPlan> read_torch_legacy(const ByteSource& file, LeftOut without = {});

/// The files of a directory beside .metadata, by name, with the number that each has in the plan.
struct NumberedSource {
  std::uint32_t file = 0;
  const ByteSource* source = nullptr;
};
using NumberedSources = std::map<std::string, NumberedSource, std::less<>>;
/// A directory of torch.distributed.checkpoint, from the content of its .metadata. Errors: as above.
Result<ImportPlan> read_dcp(std::string_view metadata, const NumberedSources& files, LeftOut without = {});

/// A zip of torch.save that lies in a file, maybe as a part of it. What a StateTaker needs to find storages.
class TorchArchive {
 public:
  /// `at` is where `source` begins in file `number`. Errors: corrupt; unavailable.
  static Result<TorchArchive> open(const ByteSource& source, std::uint32_t number, std::uint64_t at);
  const PickleHeap& heap() const { return heap_; }
  Ref root() const { return root_; }
  /// Where a storage is; its checksum is added to `plan`, once. Errors: corrupt (missing, of another size).
  Result<StoragePlace> find(const PickleValue& storage, ImportPlan& plan);
  /// Before another plan is made of it.
  void forget_checks() { is_checked_.clear(); }

 private:
  PickleHeap heap_;
  Ref root_ = 0;
  Zip zip_;
  std::string top_;
  std::uint32_t number_ = 0;
  std::uint64_t at_ = 0;
  std::map<std::string, bool, std::less<>> is_checked_;
};

}  // namespace unbroken
