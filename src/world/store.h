#pragma once
// Write-once objects under keys such as "journal/00000000000000000007": what the protocols know of storage.
// Demanded: a create that never replaces, and a get by name that sees a completed create. Not demanded:
// renames, complete listings, locks, clocks.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "world/clock.h"
#include "world/fs.h"

namespace unbroken {

/// One object being written; nothing is visible as whole before finish(). Dropping it abandons the bytes.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  /// Any order, no overlap; `data` is kept alive until `done` is called.
  virtual void write(std::uint64_t offset, BufferRef data, Completion done) = 0;
  /// After every completion came back ok: bytes durable after ok. The name is durable after
  /// Store::sync(prefix).
  virtual Result<> finish(const Deadline& by) = 0;
};

class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  virtual std::uint64_t bytes() const = 0;
  /// Fills `into` or fails: corrupt where the object ends before. Safe from several threads at once.
  virtual Result<> read(std::uint64_t offset, MutableBytes into) const = 0;
};

struct Capabilities {
  bool exclusive_create = false;  ///< create() never replaces, whoever races
  bool survives_node = false;     ///< what is durable here outlives this machine (shared or remote)
  bool survives_process = true;   ///< false only for a store in this process's memory
};

/// Who this storage is, to tell two directories apart.
struct StoreIdentity {
  std::uint64_t device = 0, inode = 0;
  std::string path;  ///< for people
};

/// Keys: segments of [A-Za-z0-9._-] joined by '/', at most 200 bytes. Errors of every method besides those
/// named: unavailable, no_space, late, stopped. Each names what was done, the key and the cause: who passes
/// one on adds neither.
class Store {
 public:
  virtual ~Store() = default;
  virtual Capabilities capabilities() const = 0;
  virtual StoreIdentity identity() const = 0;
  /// Whole or nothing, never replaces, content durable before the name is visible. The name is durable after
  /// sync(prefix). Parents are made as needed.
  virtual Result<Created> create(std::string_view key, Bytes data, const Deadline& by) = 0;
  /// For a key that nobody else writes (it holds the writer's nonce). `bytes` is the final size.
  virtual Result<std::unique_ptr<ObjectWriter>> open_writer(std::string_view key, std::uint64_t bytes,
                                                            const Deadline& by) = 0;
  /// The whole object, read afresh by name. not_found; corrupt where it is longer than `bytes_max`, or where
  /// what stands there, or in place of a folder above, is no object (a link, a pipe, a device, a folder);
  /// then bad_argument where it stands in place of a folder at the top.
  virtual Result<std::string> get(std::string_view key, std::uint64_t bytes_max,
                                  const Deadline& by) const = 0;
  virtual Result<std::unique_ptr<ObjectReader>> open_reader(std::string_view key,
                                                            const Deadline& by) const = 0;
  /// Names directly below `prefix` ("data/"), folders without the slash, sorted. A hint: may be stale. Empty
  /// where there is no such prefix.
  virtual Result<std::vector<std::string>> list(std::string_view prefix, const Deadline& by) const = 0;
  /// Ok also where it is gone already.
  virtual Result<> remove(std::string_view key, const Deadline& by) = 0;
  /// Removes the folder itself once it is empty; ok where it is gone, or where the storage has no folders.
  virtual Result<> remove_folder(std::string_view prefix, const Deadline& by) = 0;
  /// Names directly below `prefix`, and the folder's own name, are durable after ok, whoever wrote them.
  virtual Result<> sync(std::string_view prefix, const Deadline& by) = 0;
  /// Advisory: replaces what is there, is not synced, may be lost.
  virtual Result<> advise(std::string_view key, Bytes data, const Deadline& by) = 0;
  /// Advisory: adds to the end.
  virtual Result<> append(std::string_view key, Bytes data, const Deadline& by) = 0;
  virtual Result<std::uint64_t> free_bytes(const Deadline& by) const = 0;
};

/// Errors: bad_argument for a key outside the alphabet.
Result<> check_key(std::string_view key);

}  // namespace unbroken
