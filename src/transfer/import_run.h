#pragma once
// A run made of a foreign checkpoint: GENESIS, one attempt, one committed and verified checkpoint, closed.
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "engine/seams.h"
#include "journal/record.h"
#include "transfer/tensor_feed.h"

namespace unbroken {

struct ImportOptions {
  std::uint64_t step = 0;
  std::map<std::string, std::string> provenance;
  std::function<Result<>(const Deadline&)> probe;  ///< is the storage fit for a journal?
  std::function<void(std::uint64_t bytes)> tell;   ///< after each block, how much of the state was written
};

struct ImportedRun {
  std::string run;  ///< uuid
  Commit commit;
  std::size_t tensors = 0;
};

/// Into an empty directory. `plan` was checked. The bytes stream through: memory is a block, or the largest
/// tensor that does not lie in one piece.
/// Errors:     corrupt, unavailable, no_space; then the directory holds a run without a checkpoint.
/// Durability: everything is durable below the directory after ok.
Result<ImportedRun> import_run(const Seams& seams, const ImportPlan& plan, const ForeignFiles& files,
                               const ImportOptions& options, const Deadline& by);

}  // namespace unbroken
