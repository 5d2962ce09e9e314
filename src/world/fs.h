#pragma once
// A file system below one directory: one method per system call whose effect can be lost, torn or reordered,
// so that the simulator can lose exactly that. Paths are relative to the run directory, made of
// [A-Za-z0-9._-] and '/', and never followed through a symbolic link. "" is the run directory itself.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace unbroken {

enum class FileId : std::int32_t {};

struct FileInfo {
  std::uint64_t bytes = 0;
  std::uint32_t links = 0;
  std::uint32_t mode = 0;   ///< permission bits
  std::uint32_t owner = 0;  ///< uid
  bool is_directory = false;
  std::uint64_t device = 0, inode = 0;
};

/// Did a create take place? `unknown`: the answer was lost; look at the name and compare.
enum class Created : std::uint8_t { created, exists, unknown };

/// Called exactly once, from any thread, when the bytes are written or have failed.
using Completion = std::function<void(Result<>)>;

/// Errors of every method: not_found (ENOENT), no_space (ENOSPC, EDQUOT, EFBIG), bad_argument (something of
/// another kind stands at the name or above it: a symbolic link, a pipe, a device, a file in place of a
/// folder or the other way round), unavailable (anything else the system says, by name), stopped (the process
/// is being ended by a test). Their text names the call and the cause; the caller names the object.
class Fs {
 public:
  virtual ~Fs() = default;
  /// O_EXCL | O_NOFOLLOW, mode 0600 (0660 for a group). A name that exists is `unavailable`.
  virtual Result<FileId> create_excl(std::string_view path) = 0;
  virtual Result<FileId> open_read(std::string_view path) const = 0;
  /// Room for a new file of `bytes`, taken before they are written, so that storage that is full says so at
  /// once. Where room cannot be taken ahead: nothing, and ok.
  virtual Result<> reserve(FileId, std::uint64_t /*bytes*/) { return Done{}; }
  /// From here on the cache of the machine is passed by where that can be: for large files, whose bytes would
  /// push out what is of more use, and for reading what is on the device. A wish; `path` is the file's.
  virtual void bypass_cache(FileId, std::string_view /*path*/) const {}
  /// Writes all of `data` or fails. Several may be in flight on one file; ranges do not overlap.
  virtual void write_at(FileId file, std::uint64_t offset, BufferRef data, Completion done) = 0;
  /// Returns once every write on `file` that was started before has called its completion; nothing to do
  /// where write_at completes before it returns.
  virtual void settle(FileId) {}
  /// Reads until `into` is full or the file ends; returns the bytes read.
  virtual Result<std::uint64_t> read_at(FileId file, std::uint64_t offset, MutableBytes into) const = 0;
  virtual Result<std::uint64_t> size(FileId file) const = 0;
  /// The content is durable after ok. After an error the file must be abandoned: never sync it again.
  virtual Result<> sync(FileId file) = 0;
  virtual Result<> close(FileId file) const = 0;
  /// link(2): never replaces. `exists` where the target is there; `unknown` where the answer was lost, as it
  /// may be where it is an error.
  virtual Result<Created> link(std::string_view from, std::string_view to) = 0;
  /// rename(2): replaces. For advisory objects only.
  virtual Result<> rename(std::string_view from, std::string_view to) = 0;
  virtual Result<> unlink(std::string_view path) = 0;
  /// mkdir(2), mode 0700 (2770 for a group); `exists` where it is there already.
  virtual Result<Created> make_dir(std::string_view path) = 0;
  /// rmdir(2): fails where it is not empty.
  virtual Result<> remove_dir(std::string_view path) = 0;
  /// The names in the directory are durable after ok, whoever made them.
  virtual Result<> sync_dir(std::string_view path) = 0;
  /// Names in one directory, in no order. A hint: it may be stale. not_found where the directory is missing.
  virtual Result<std::vector<std::string>> list(std::string_view dir) const = 0;
  virtual Result<FileInfo> info(std::string_view path) const = 0;
  /// Adds to the end of a file, making it where needed; advisory (not synced, may be lost or torn).
  virtual Result<> append(std::string_view path, Bytes data) = 0;
  virtual Result<std::uint64_t> free_bytes() const = 0;
  /// False where the path that the directory was opened by leads to nothing by now, or to another one.
  virtual bool is_in_place() const { return true; }
};

}  // namespace unbroken
