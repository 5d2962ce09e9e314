#pragma once
// Writing bytes in memory to a store, several pieces at once.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "engine/seams.h"
#include "world/action.h"

namespace unbroken {

inline constexpr std::uint64_t kBlockBytes = std::uint64_t{8} << 20;  ///< one write

/// Writes `parts`, in order, as one object.
/// Errors:     those of Store::open_writer and ObjectWriter; then nothing is left of it.
/// Durability: the bytes are durable after ok, the name after Store::sync().
Result<> write_object(const Seams& seams, std::string_view key, std::span<const BufferRef> parts,
                      const Deadline& by);

/// True once the bytes [begin, end) of an image are final. Threads: any.
using IsFinal = std::function<bool(std::uint64_t begin, std::uint64_t end)>;
/// Asked before each block; until the block is written, or what comes back is dropped, this thread's storage
/// calls give way to those of others. Empty, or null: they do not.
using GivesWay = std::function<std::shared_ptr<void>()>;
/// How an image is written.
struct WriteWish {
  IsFinal is_final = {};          ///< empty: all of it is
  std::uint64_t bytes_per_s = 0;  ///< at most; 0: as fast as the storage takes them
  /// Where others wait for the image to be written: bytes [begin, end) of it are, and are not read again; or
  /// an error ended it. Threads: any.
  std::function<void(std::uint64_t begin, std::uint64_t end)> on_written = {};
  std::function<void(const Error&)> on_failed = {};
  GivesWay gives_way = {};
};
/// Makes the object at once, and begins to write `image` to it: each block as soon as it is final. Whoever
/// makes a block final says so by Executor::notify(). Errors and durability as of write_object(), in
/// finish(), which has to be called.
std::shared_ptr<BegunWrite> begin_write(const Seams& seams, std::string key, BufferRef image, WriteWish wish,
                                        const Deadline& by);

}  // namespace unbroken
