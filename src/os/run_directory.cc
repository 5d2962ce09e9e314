// Opening the run directory: making it, its owner and permissions, what storage it is on.
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/text.h"
#include "os/errno.h"
#include "os/os_fs.h"
#include "world/advice.h"

namespace unbroken {
namespace {

struct KnownKind {
  std::uint32_t number;
  const char* name;
  bool is_memory = false;
  bool is_shared = false;
};

// linux/magic.h, and the sources of the file systems that are not in it.
constexpr KnownKind kKinds[] = {
    {EXT4_SUPER_MAGIC, "ext4"},
    {XFS_SUPER_MAGIC, "xfs"},
    {BTRFS_SUPER_MAGIC, "btrfs"},
    {F2FS_SUPER_MAGIC, "f2fs"},
    {0x2fc12fc1, "zfs"},
    {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {FUSE_SUPER_MAGIC, "fuse"},
    {V9FS_MAGIC, "9p"},
    {TMPFS_MAGIC, "tmpfs", true},
    {RAMFS_MAGIC, "ramfs", true},
    {NFS_SUPER_MAGIC, "nfs", false, true},
    {CIFS_SUPER_MAGIC, "cifs", false, true},
    {SMB2_SUPER_MAGIC, "smb2", false, true},
    {CEPH_SUPER_MAGIC, "ceph", false, true},
    {0x0bd00bd0, "lustre", false, true},
    {0x47504653, "gpfs", false, true},
    {0x19830326, "beegfs", false, true},
};

/// "a/b/c" -> "a", "a/b", "a/b/c".
std::vector<std::string> prefixes_of(const std::string& path) {
  std::vector<std::string> prefixes;
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    prefixes.push_back(path.substr(0, slash));
  prefixes.push_back(path);
  return prefixes;
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<> sync_folder(const std::string& path) {
  UNBROKEN_TRY(const Descriptor folder,
               adopt(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open", path));
  if (::fsync(folder.get()) != 0) return errno_error(errno, "fsync", path);
  return Done{};
}

std::string absolute(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
  return real ? std::string(real.get()) : path;
}

}  // namespace

Result<OsFs::Ownership> OsFs::ownership_of(const std::string& group) {
  if (group.empty()) return Ownership{};
  if (const auto number = parse_u64(group, UINT32_MAX - 1); number.ok())
    return Ownership{.group = static_cast<gid_t>(number.value())};
  std::vector<char> room(64 * 1024);
  struct group entry{};
  struct group* found = nullptr;
  const int number = ::getgrnam_r(group.c_str(), &entry, room.data(), room.size(), &found);
  if (number != 0) return errno_error(number, "getgrnam", group);
  if (found == nullptr)
    return Error(Code::bad_argument, fmt::format("group {}: there is none of this name", group));
  return Ownership{.group = found->gr_gid};
}

/// Makes what is missing, as `mkdir -p` does, closed to others from the first moment, and durable.
Result<> OsFs::make_run_dir(const std::string& directory, const Ownership& ownership) {
  for (const std::string& path : prefixes_of(directory)) {
    if (::mkdir(path.c_str(), 0700) != 0) {
      // A path that exists may answer EROFS or EACCES before EEXIST.
      struct stat status{};
      const int number = errno;
      if (number == EEXIST || ::stat(path.c_str(), &status) == 0) continue;
      // What is above it is there, so it is not missing: this is no place for directories.
      if (number == ENOENT)
        return Error(Code::unavailable, fmt::format("{}: no directory can be made there", path))
            .next("findmnt -T " + shell_word(parent_of(path)));
      return errno_error(number, "mkdir", path);
    }
    UNBROKEN_TRY(const Descriptor folder,
                 adopt(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), "open", path));
    if (auto set = set_mode(folder.get(), ownership.folder_mode(), ownership); !set.ok())
      return std::move(set).error().with(path);
    UNBROKEN_DO(sync_folder(parent_of(path)));
  }
  // Another process may have made it a moment ago; where we may not read above it, nor did we make it.
  static_cast<void>(sync_folder(parent_of(directory)).ok());
  return Done{};
}

Result<std::unique_ptr<OsFs>> OsFs::open(std::string_view directory, const OsFsOptions& options) {
  std::string path(directory);
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path.empty() || path.find('\0') != std::string::npos)
    return Error(Code::bad_argument, "the run directory has an empty name");
  UNBROKEN_TRY(Ownership ownership, ownership_of(options.group));
  if (options.is_created) UNBROKEN_DO(make_run_dir(path, ownership));
  const int opened = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0 && errno == ENOTDIR)
    return Error(Code::bad_argument, fmt::format("{}: is not a directory", path)).from_system(ENOTDIR);
  UNBROKEN_TRY(Descriptor root, adopt(opened, "open", path));
  struct stat status{};
  if (options.is_joining && ::fstat(root.get(), &status) == 0) {
    const bool is_root = ::geteuid() == 0, is_shared = (status.st_mode & S_IRWXG) == S_IRWXG;
    if (is_shared && (is_root || ::group_member(status.st_gid) != 0)) ownership.group = status.st_gid;
    if (is_root) ownership.owner = status.st_uid;
  }
  return std::unique_ptr<OsFs>(new OsFs(std::move(root), absolute(path), ownership, options));
}

Result<DirectoryTrust> OsFs::trust(std::span<const std::string_view> folders) const {
  auto root_info = info("");
  if (!root_info.ok()) return advised(std::move(root_info).error().with(path_), path_);
  const FileInfo& root = root_info.value();
  const auto check = [&](std::string_view folder, const FileInfo& found) -> Result<> {
    if ((found.mode & S_IWOTH) == 0) return Done{};
    const std::string path = folder.empty() ? path_ : fmt::format("{}/{}", path_, folder);
    return Error(Code::bad_argument, fmt::format("{}: everybody may write there", path))
        .next("chmod o-w " + shell_word(path));
  };
  UNBROKEN_DO(check("", root));
  for (const std::string_view folder : folders) {
    const auto found = info(folder);
    if (found.is(Code::not_found)) continue;
    // What is no folder cannot be written through; what reads it says what it is.
    if (found.is(Code::bad_argument)) continue;
    if (!found.ok())
      return advised(Error(found.error()).with(fmt::format("{}/{}", path_, folder)), path_, folder);
    UNBROKEN_DO(check(folder, found.value()));
  }
  return DirectoryTrust{
      .owner = root.owner, .mode = root.mode, .is_owner_foreign = root.owner != ::geteuid()};
}

Result<FileSystemKind> OsFs::kind() const {
  UNBROKEN_DO(check_alive());
  struct statfs status{};
  if (::fstatfs(root_.get(), &status) != 0) return errno_error(errno, "statfs", path_);
  const auto number = static_cast<std::uint32_t>(status.f_type);
  for (const KnownKind& known : kKinds) {
    if (known.number == number)
      return FileSystemKind{.name = known.name, .is_memory = known.is_memory, .is_shared = known.is_shared};
  }
  return FileSystemKind{.name = fmt::format("{:#x}", number)};
}

}  // namespace unbroken
