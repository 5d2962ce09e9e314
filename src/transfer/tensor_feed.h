#pragma once
// The logical bytes of a tensor that a plan describes, from the files it lies in: contiguous, row-major.
#include <functional>
#include <vector>

#include "exchange/import_plan.h"
#include "exchange/source.h"

namespace unbroken {

using ForeignFiles = std::vector<const ByteSource*>;

/// Hands the bytes of one tensor of a checked plan to `take`, in order, in blocks. One that lies in one piece
/// needs a block of memory; any other one its own size.
/// Errors: those of reading and of `take`; unavailable (no memory).
Result<> feed_tensor(const ImportPlan& plan, const ImportedTensor& tensor, const ForeignFiles& files,
                     const std::function<Result<>(Bytes)>& take);

/// Compares everything that has a checksum of its own with it. Errors: corrupt, naming what differs.
Result<> verify_checksums(const ImportPlan& plan, const ForeignFiles& files,
                          const std::function<void(std::uint64_t bytes)>& tell);

}  // namespace unbroken
