#pragma once
// Reading from a store, several pieces at once, each verified while it is in memory.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "engine/seams.h"
#include "format/verify.h"
#include "world/action.h"

namespace unbroken {

inline constexpr std::uint64_t kReadBytes = std::uint64_t{1} << 20;  ///< one read, of one chunk or several

/// Reads the object and hashes it in chunks, if it is as long as `wanted` says.
/// Errors: not_found, corrupt (it ended meanwhile, or is no file), unavailable, late, stopped.
Result<HashedObject> hash_object(const Seams& seams, const HashObject& wanted, const Deadline& by);

/// Where the logical bytes of a tensor go: contiguous, exactly its size.
struct TensorTarget {
  std::string name;
  MutableBytes into;
};

/// Reads the shard, verifies every chunk against `chunks` while it is in the processor's cache, and puts what
/// is right into the targets of its tensors. Tensors without a target are verified only. Memory: kReadBytes,
/// or one chunk, for each worker of the io lane. Damage is read once more before it is believed. Errors:
/// corrupt (with what is damaged in `damage`, never empty then), bad_argument (a target of another
///         size, or of a tensor that is not there), unavailable, late, stopped. After each but bad_argument a
///         part of the bytes may be in the targets; no byte of a chunk that is damaged ever is.
Result<> load_shard(const Seams& seams, std::string_view key, const Index& index,
                    std::span<const Xxh128> chunks, std::span<const TensorTarget> targets,
                    std::vector<Damage>& damage, const Deadline& by);

}  // namespace unbroken
