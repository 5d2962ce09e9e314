#pragma once
// Tensors of a checkpoint as one safetensors file. Each byte is verified before it is handed on; memory is a
// block, whatever the size.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/seams.h"
#include "format/shard.h"
#include "restore/read_save.h"

namespace unbroken {

/// A tensor, and the name it gets in the file.
struct ExportedTensor {
  std::string name;
  const IndexedTensor* tensor = nullptr;
};

/// Errors: bad_argument (two of one name, too many axes).
Result<ShardPlan> plan_export(const std::vector<ExportedTensor>& tensors);

struct ExportSink {
  /// Any order, no overlap, every byte of the file once.
  std::function<Result<>(std::uint64_t offset, Bytes bytes)> write;
  std::function<void(std::uint64_t bytes)> tell;  ///< after each block that was read
};

/// Reads what the tensors need of the shard, chunk by chunk, and writes the file of `plan`.
/// Errors: corrupt (damaged, also when it was read once more), vanished (it is not there any more),
///         unavailable, late, stopped; those of the sink.
Result<> export_shard(const Seams& seams, const SavedState& saved, const std::vector<ExportedTensor>& tensors,
                      const ShardPlan& plan, const ExportSink& sink, const Deadline& by);

}  // namespace unbroken
