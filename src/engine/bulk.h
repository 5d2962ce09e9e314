#pragma once
// Moving bytes between memory and a store, several pieces at once.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "engine/seams.h"
#include "format/verify.h"
#include "world/action.h"

namespace unbroken {

inline constexpr std::uint64_t kBlockBytes = std::uint64_t{8} << 20;  ///< one write
inline constexpr std::uint64_t kReadBytes = std::uint64_t{4} << 20;   ///< one read, of several chunks

/// Writes `parts`, in order, as one object.
/// Errors:     those of Store::open_writer and ObjectWriter; then nothing is left of it.
/// Durability: the bytes are durable after ok, the name after Store::sync().
Result<> write_object(const Seams& seams, std::string_view key, std::span<const BufferRef> parts,
                      const Deadline& by);

/// True once the bytes [begin, end) of an image are final. Threads: any.
using IsFinal = std::function<bool(std::uint64_t begin, std::uint64_t end)>;
/// Begins to write `image` as one object: each block as soon as it is final. Whoever makes a block final says
/// so by Executor::notify(). Errors and durability as of write_object(), in finish(), which has to be called.
std::shared_ptr<BegunWrite> begin_write(const Seams& seams, std::string key, BufferRef image,
                                        IsFinal is_final, const Deadline& by);

/// Reads the object and hashes it in chunks, if it is as long as `wanted` says.
/// Errors: not_found, corrupt (it ended meanwhile, or is no file), unavailable, late, stopped.
Result<HashedObject> hash_object(const Seams& seams, const HashObject& wanted, const Deadline& by);

/// Where the logical bytes of a tensor go: contiguous, exactly its size.
struct TensorTarget {
  std::string name;
  MutableBytes into;
};

/// Reads the shard, verifies every chunk against `chunks` while it is in memory, and puts the tensors into
/// their targets. Tensors without a target are verified only. Damage is read once more before it is believed.
/// Errors: corrupt (with what is damaged in `damage`, never empty then; targets may hold anything),
/// bad_argument
///         (a target of another size, or of a tensor that is not there), unavailable, late, stopped.
Result<> load_shard(const Seams& seams, std::string_view key, const Index& index,
                    std::span<const Xxh128> chunks, std::span<const TensorTarget> targets,
                    std::vector<Damage>& damage, const Deadline& by);

}  // namespace unbroken
