#pragma once
// The file system of this machine below one run directory. The directory is opened once; every name below it
// is looked up from there without following a symbolic link, so that nobody who can write beside us can
// redirect us. Permissions are set explicitly, whatever the umask says. In a forked child every method is
// `stopped`.
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/descriptor.h"
#include "os/direct/direct_files.h"
#include "os/direct/ring.h"
#include "os/fork_guard.h"
#include "os/lookup.h"
#include "os/syscalls.h"
#include "world/fs.h"

namespace unbroken {

/// How large files are written.
enum class WriteEngine : std::uint8_t {
  threads,   ///< pwrite past the cache of the machine, in the threads that ask for it
  ring,      ///< io_uring past the cache; as `threads` where that is not to be had
  buffered,  ///< pwrite through the cache
};

struct OsFsOptions {
  bool is_created = false;  ///< make the directory and those above it where they are missing
  std::string group = {};   ///< name or number: files 0660, folders 2770 of it; empty: 0600 and 0700
  /// For those who add to what belongs to others, who have to be able to read it: where the group may write
  /// in the directory, files are of that group; what root makes is the owner's of the directory.
  bool is_joining = false;
  bool is_lookup_portable = false;  ///< go without openat2, as on kernels before 5.6
  WriteEngine engine = WriteEngine::threads;
  const Syscalls* calls = &kSyscalls;
};

/// Who may interfere with the directory.
struct DirectoryTrust {
  std::uint32_t owner = 0;        ///< uid
  std::uint32_t mode = 0;         ///< permission bits
  bool is_owner_foreign = false;  ///< not this process's effective user: worth a warning
};

/// What the storage is, as far as its kind tells.
struct FileSystemKind {
  std::string name;        ///< "ext4", "tmpfs", "nfs", or its number in hex
  bool is_memory = false;  ///< ends with the machine, or with its reboot
  bool is_shared = false;  ///< other machines see it: what is durable here outlives this one
};

class OsFs final : public Fs {
 public:
  /// Errors: not_found (no such directory), bad_argument (not a directory, unknown group), unavailable.
  /// Durability: the names of folders made here are durable after ok.
  static Result<std::unique_ptr<OsFs>> open(std::string_view directory, const OsFsOptions& options = {});

  /// Checks the run directory and those of `folders` that exist. Errors: bad_argument where one of them is
  /// writable by everybody.
  Result<DirectoryTrust> trust(std::span<const std::string_view> folders = {}) const;
  Result<FileSystemKind> kind() const;
  /// Absolute, for people.
  const std::string& path() const { return path_; }
  /// What came of the wish.
  WriteEngine engine() const { return engine_; }
  /// A line for a person where the wish could not be granted.
  const std::string& engine_note() const { return engine_note_; }

  Result<FileId> create_excl(std::string_view path) override;
  Result<FileId> open_read(std::string_view path) const override;
  Result<> reserve(FileId file, std::uint64_t bytes) override;
  void bypass_cache(FileId file, std::string_view path) const override;
  void write_at(FileId file, std::uint64_t offset, BufferRef data, Completion done) override;
  void settle(FileId file) override;
  Result<std::uint64_t> read_at(FileId file, std::uint64_t offset, MutableBytes into) const override;
  Result<std::uint64_t> size(FileId file) const override;
  Result<> sync(FileId file) override;
  Result<> close(FileId file) const override;
  /// Falls back to renameat2(RENAME_NOREPLACE) where there are no hard links; then `from` is gone after
  /// created. Errors: also unsupported, where there is neither. Any error may be a lost answer.
  Result<Created> link(std::string_view from, std::string_view to) override;
  Result<> rename(std::string_view from, std::string_view to) override;
  Result<> unlink(std::string_view path) override;
  Result<Created> make_dir(std::string_view path) override;
  Result<> remove_dir(std::string_view path) override;
  /// Errors: also unsupported, where directories cannot be synced.
  Result<> sync_dir(std::string_view path) override;
  Result<std::vector<std::string>> list(std::string_view dir) const override;
  Result<FileInfo> info(std::string_view path) const override;
  Result<> append(std::string_view path, Bytes data) override;
  Result<std::uint64_t> free_bytes() const override;
  bool is_in_place() const override;

 private:
  struct Ownership {
    std::optional<gid_t> group;
    std::optional<uid_t> owner = {};
    mode_t file_mode() const { return group ? 0660 : 0600; }
    mode_t folder_mode() const { return group ? 02770 : 0700; }
  };
  OsFs(Descriptor root, std::string path, Ownership ownership, const OsFsOptions& options);
  static Result<Ownership> ownership_of(const std::string& group);
  static Result<> make_run_dir(const std::string& directory, const Ownership& ownership);
  static Result<> set_mode(int file, mode_t mode, const Ownership& ownership);
  Result<> check_alive() const;
  Result<> check_not_strange(std::string_view path) const;
  Result<Created> link_names(const Lookup::Place& from, const Lookup::Place& to);

  const Descriptor root_;
  const std::string path_;
  const Ownership ownership_;
  const Syscalls& calls_;
  const Lookup lookup_;
  const ForkGuard guard_;
  mutable DirectFiles direct_;
  WriteEngine engine_;
  std::string engine_note_;
  std::unique_ptr<Ring> ring_;  // ends first: its thread uses the rest
};

}  // namespace unbroken
