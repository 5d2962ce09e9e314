#pragma once
// The Store over a file system. It is one class of rules about the order of system calls, and nothing else:
//   create    temporary file beside the target, write, fsync, link(2), unlink the temporary name. A link
//             never replaces, so of any number of racing writers exactly one wins; whoever sees the name
//             sees it whole.
//   writer    made exclusively under its final name, which nobody else uses (it holds a nonce); written in
//             any order; fsync, close.
//   sync      fsync of the directory, then of the directories above it, so that names and the names of their
//             folders survive a power cut.
// What a failed fsync or close leaves behind is abandoned: removed, never synced again. Content is durable
// before its name is visible; the name is durable after sync(). Every system call is an Fs method, so that
// the simulator can lose, tear or reorder each of them.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "world/clock.h"
#include "world/fs.h"
#include "world/store.h"

namespace unbroken {

struct FileStoreOptions {
  std::string path = {};         ///< of the run directory, for people
  bool survives_node = false;    ///< a shared file system
  bool survives_process = true;  ///< false only in a simulated memory
  bool exclusive_create = true;  ///< what probe_store() found or will find
};

/// Of which object a name is the temporary one ("<object>.<16 hex digits>.tmp"); nullopt: of none. They are
/// not listed.
std::optional<std::string_view> temporary_of(std::string_view name);

/// Threads: any number at once. Borrows `fs`, `clock` and `random`, which outlive it, its writers and
/// readers.
class FileStore final : public Store {
 public:
  FileStore(Fs& fs, const Clock& clock, Random& random, FileStoreOptions options = {});

  Capabilities capabilities() const override;
  StoreIdentity identity() const override;
  Result<Created> create(std::string_view key, Bytes data, const Deadline& by) override;
  Result<std::unique_ptr<ObjectWriter>> open_writer(std::string_view key, std::uint64_t bytes,
                                                    const Deadline& by) override;
  Result<std::string> get(std::string_view key, std::uint64_t bytes_max, const Deadline& by) const override;
  Result<std::unique_ptr<ObjectReader>> open_reader(std::string_view key, const Deadline& by) const override;
  Result<std::vector<std::string>> list(std::string_view prefix, const Deadline& by) const override;
  Result<> remove(std::string_view key, const Deadline& by) override;
  Result<> remove_folder(std::string_view prefix, const Deadline& by) override;
  Result<> sync(std::string_view prefix, const Deadline& by) override;
  Result<> advise(std::string_view key, Bytes data, const Deadline& by) override;
  Result<> append(std::string_view key, Bytes data, const Deadline& by) override;
  Result<std::uint64_t> free_bytes(const Deadline& by) const override;

  /// Removes the temporary names directly below `prefix`, of the objects (by their names there) that
  /// `is_wanted` takes, and says how many. A create() that is under way there meanwhile has made nothing: it
  /// answers `unknown` and may be asked again.
  Result<std::uint64_t> sweep(std::string_view prefix, const std::function<bool(std::string_view)>& is_wanted,
                              const Deadline& by);

 private:
  Result<> check(const Deadline& by) const;
  Result<> check(const Deadline& by, std::string_view doing, std::string_view key) const;
  Error told(Error error, std::string_view doing, std::string_view key) const;
  Error seen(Error error, std::string_view doing, std::string_view path) const;
  bool is_folder(std::string_view path) const;
  std::string temporary_name(std::string_view key);
  Result<FileId> create_file(const std::string& path, std::string_view key, const Deadline& by);
  void forget_durable(std::string_view folder);
  Result<> make_parents(std::string_view key, const Deadline& by);
  Result<std::string> write_temporary(std::string_view key, Bytes data, bool is_durable, const Deadline& by);
  bool is_name_of(std::string_view key, std::string_view temporary) const;
  Result<Created> publish(const std::string& temporary, std::string_view key, const Deadline& by);
  void discard(std::string_view path);
  Result<> sync_above(std::string_view folder, const Deadline& by);

  Fs& fs_;
  const Clock& clock_;
  Random& random_;
  const FileStoreOptions options_;
  // Folders directly below the run directory whose own name is durable: they are never removed by the rules
  // of the journal, so one sync of the run directory is enough. Forgotten whenever we make or remove a
  // folder.
  std::mutex mutex_;
  std::set<std::string, std::less<>> durable_folders_;
  std::uint64_t folder_changes_ = 0;
};

}  // namespace unbroken
