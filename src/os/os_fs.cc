#include "os/os_fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "os/direct/file_io.h"
#include "os/errno.h"

namespace unbroken {
namespace {

// Never waits for the other end of a planted pipe, never takes a terminal.
constexpr int kPlain = O_NONBLOCK | O_NOCTTY;

// On their way in the ring.
constexpr unsigned kWritesAtOnce = 8;

int number_of(FileId file) {
  return static_cast<int>(file);
}

bool is_missing_call(int number) {
  return number == ENOSYS || number == EOPNOTSUPP || number == EINVAL;
}

/// Of a write in the ring: it was not tried, or not as the threads would have tried it. EINVAL where a device
/// wants more alignment than we keep.
bool is_no_answer(int number) {
  return number == EAGAIN || number == EBUSY || number == EINTR || number == ECANCELED || number == ENOMEM ||
         is_missing_call(number);
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// Refuses pipes, devices and folders under a name that must be a file.
Result<> check_regular(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return Done{};
  return Error(Code::bad_argument, fmt::format("{} stands there, not a file", kind_of(status.st_mode)));
}

FileInfo info_of(const struct stat& status) {
  return {.bytes = static_cast<std::uint64_t>(status.st_size),
          .links = static_cast<std::uint32_t>(status.st_nlink),
          .mode = status.st_mode & 07777,
          .owner = status.st_uid,
          .is_directory = S_ISDIR(status.st_mode),
          .device = status.st_dev,
          .inode = status.st_ino};
}

}  // namespace

OsFs::OsFs(Descriptor root, std::string path, Ownership ownership, const OsFsOptions& options)
    : root_(std::move(root)),
      path_(std::move(path)),
      ownership_(ownership),
      calls_(*options.calls),
      lookup_(root_.get(), options.is_lookup_portable),
      engine_(options.engine) {
  if (engine_ != WriteEngine::ring) return;
  auto ring = Ring::open(calls_, kWritesAtOnce);
  if (ring.ok()) {
    ring_ = std::move(ring).value();
    return;
  }
  engine_ = WriteEngine::threads;
  engine_note_ =
      fmt::format("no io_uring here ({}): checkpoints are written by threads", ring.error().what());
}

Result<> OsFs::check_alive() const {
  if (guard_.is_child())
    return Error(Code::stopped, "the run belongs to the process that opened it, not to its fork");
  return Done{};
}

Result<> OsFs::set_mode(int file, mode_t mode, const Ownership& ownership) {
  constexpr auto kSame = static_cast<uid_t>(-1);
  const bool is_given = ownership.group || ownership.owner;
  if (is_given && ::fchown(file, ownership.owner.value_or(kSame), ownership.group.value_or(kSame)) != 0)
    return errno_error(errno, "fchown");
  if (::fchmod(file, mode) != 0) return errno_error(errno, "fchmod");
  return Done{};
}

Result<FileId> OsFs::create_excl(std::string_view path) {
  UNBROKEN_DO(check_alive());
  UNBROKEN_TRY(Descriptor file, lookup_.open(path, O_CREAT | O_EXCL | O_RDWR | kPlain, 0600));
  if (auto set = set_mode(file.get(), ownership_.file_mode(), ownership_); !set.ok()) {
    static_cast<void>(unlink(path).ok());
    return std::move(set).error();
  }
  return FileId{file.release()};
}

/// A socket cannot be opened at all, nor a device on most mounts: that is no fault of the storage.
Result<> OsFs::check_not_strange(std::string_view path) const {
  const auto place = lookup_.place(path);
  struct stat status{};
  if (!place.ok() ||
      ::fstatat(place.value().folder.get(), place.value().name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return Done{};
  return check_regular(status);
}

Result<FileId> OsFs::open_read(std::string_view path) const {
  UNBROKEN_DO(check_alive());
  auto file = lookup_.open(path, O_RDONLY | kPlain);
  if (file.is(Code::unavailable)) UNBROKEN_DO(check_not_strange(path));
  if (!file.ok()) return std::move(file).error();
  struct stat status{};
  if (::fstat(file.value().get(), &status) != 0) return errno_error(errno, "fstat");
  UNBROKEN_DO(check_regular(status));
  return FileId{file.value().release()};
}

Result<> OsFs::reserve(FileId file, std::uint64_t bytes) {
  UNBROKEN_DO(check_alive());
  // Not with FALLOC_FL_KEEP_SIZE: writes that make a file longer take turns (ext4).
  int number = 0;
  do {
    number = calls_.fallocate(number_of(file), 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (number == EINTR);
  if (number != 0 && !is_missing_call(number)) return errno_error(number, "fallocate");
  return Done{};
}

void OsFs::bypass_cache(FileId file, std::string_view path) const {
  if (guard_.is_child()) return;
  // Another descriptor, not a flag of this one, because the ends that are not aligned go through the cache.
  const int mode = ::fcntl(number_of(file), F_GETFL) & O_ACCMODE;
  if (engine_ == WriteEngine::buffered && mode != O_RDONLY) return;
  auto direct = lookup_.open(path, mode | O_DIRECT | kPlain);
  struct stat ours{}, theirs{};
  const bool is_same = direct.ok() && ::fstat(number_of(file), &ours) == 0 &&
                       ::fstat(direct.value().get(), &theirs) == 0 && ours.st_dev == theirs.st_dev &&
                       ours.st_ino == theirs.st_ino;
  if (is_same) direct_.add(number_of(file), std::move(direct).value());
}

void OsFs::write_at(FileId file, std::uint64_t offset, BufferRef data, Completion done) {
  if (auto alive = check_alive(); !alive.ok()) return done(std::move(alive));
  const OpenFile open = direct_.of(number_of(file));
  const auto finish = [&calls = calls_](OpenFile to, std::uint64_t at, Bytes rest) -> Result<> {
    const int number = write_whole_at(calls, to, at, rest);
    if (number == 0) return Done{};
    return errno_error(number, "pwrite");
  };
  const Bytes direct = ring_ ? direct_part(open, offset, data.bytes()) : Bytes();
  if (direct.empty()) return done(finish(open, offset, data.bytes()));
  ring_->write(open.direct, offset, direct, [=, done = std::move(done)](int moved) {
    // What the ring does not do, and what it leaves, is written as the threads write.
    if (moved < 0 && !is_no_answer(-moved)) return done(errno_error(-moved, "write by io_uring"));
    const auto written = static_cast<std::size_t>(std::max(0, moved));
    done(finish(open, offset + written, data.bytes().subspan(written)));
  });
}

void OsFs::settle(FileId file) {
  if (ring_ && !guard_.is_child()) ring_->settle(direct_.of(number_of(file)).direct);
}

Result<std::uint64_t> OsFs::read_at(FileId file, std::uint64_t offset, MutableBytes into) const {
  UNBROKEN_DO(check_alive());
  const ReadCount read = read_whole_at(calls_, direct_.of(number_of(file)), offset, into);
  if (read.error != 0) return errno_error(read.error, "pread");
  return read.bytes;
}

Result<std::uint64_t> OsFs::size(FileId file) const {
  UNBROKEN_DO(check_alive());
  struct stat status{};
  if (::fstat(number_of(file), &status) != 0) return errno_error(errno, "fstat");
  return static_cast<std::uint64_t>(status.st_size);
}

Result<> OsFs::sync(FileId file) {
  UNBROKEN_DO(check_alive());
  // Once, whatever it says: after a failure the kernel may call the lost pages clean.
  if (calls_.fsync(number_of(file)) != 0) return errno_error(errno, "fsync");
  return Done{};
}

Result<> OsFs::close(FileId file) const {
  UNBROKEN_DO(check_alive());
  direct_.remove(number_of(file));
  // Linux has let go of the descriptor also where it says EINTR.
  if (calls_.close(number_of(file)) != 0 && errno != EINTR) return errno_error(errno, "close");
  return Done{};
}

Result<Created> OsFs::link(std::string_view from, std::string_view to) {
  UNBROKEN_DO(check_alive());
  UNBROKEN_TRY(const Lookup::Place source, lookup_.place(from));
  UNBROKEN_TRY(const Lookup::Place target, lookup_.place(to));
  return link_names(source, target);
}

Result<Created> OsFs::link_names(const Lookup::Place& from, const Lookup::Place& to) {
  const int source = from.folder.get(), target = to.folder.get();
  if (calls_.linkat(source, from.name.c_str(), target, to.name.c_str(), 0) == 0) return Created::created;
  if (errno == EEXIST) return Created::exists;
  // EPERM is how a file system without hard links answers (link(2)).
  if (errno != EPERM && !is_missing_call(errno)) return errno_error(errno, "link");
  if (calls_.renameat2(source, from.name.c_str(), target, to.name.c_str(), RENAME_NOREPLACE) == 0)
    return Created::created;
  if (errno == EEXIST) return Created::exists;
  Error error = errno_error(errno, "link, then rename without replacing");
  if (is_missing_call(errno)) return Error(Code::unsupported, error.what());
  return error;
}

Result<> OsFs::rename(std::string_view from, std::string_view to) {
  UNBROKEN_DO(check_alive());
  UNBROKEN_TRY(const Lookup::Place source, lookup_.place(from));
  UNBROKEN_TRY(const Lookup::Place target, lookup_.place(to));
  if (::renameat(source.folder.get(), source.name.c_str(), target.folder.get(), target.name.c_str()) != 0)
    return errno_error(errno, "rename");
  return Done{};
}

Result<> OsFs::unlink(std::string_view path) {
  UNBROKEN_DO(check_alive());
  UNBROKEN_TRY(const Lookup::Place place, lookup_.place(path));
  if (::unlinkat(place.folder.get(), place.name.c_str(), 0) != 0) return errno_error(errno, "unlink");
  return Done{};
}

Result<Created> OsFs::make_dir(std::string_view path) {
  UNBROKEN_DO(check_alive());
  UNBROKEN_TRY(const Lookup::Place place, lookup_.place(path));
  if (::mkdirat(place.folder.get(), place.name.c_str(), 0700) != 0) {
    if (errno == EEXIST) return Created::exists;
    return errno_error(errno, "mkdir");
  }
  UNBROKEN_TRY(const Descriptor folder, lookup_.open(path, O_RDONLY | O_DIRECTORY));
  UNBROKEN_DO(set_mode(folder.get(), ownership_.folder_mode(), ownership_));
  return Created::created;
}

Result<> OsFs::remove_dir(std::string_view path) {
  UNBROKEN_DO(check_alive());
  UNBROKEN_TRY(const Lookup::Place place, lookup_.place(path));
  if (::unlinkat(place.folder.get(), place.name.c_str(), AT_REMOVEDIR) != 0)
    return errno_error(errno, "rmdir");
  return Done{};
}

Result<> OsFs::sync_dir(std::string_view path) {
  UNBROKEN_DO(check_alive());
  UNBROKEN_TRY(const Descriptor folder, lookup_.open(path, O_RDONLY | O_DIRECTORY));
  if (calls_.fsync(folder.get()) == 0) return Done{};
  Error error = errno_error(errno, "fsync of the directory");
  if (is_missing_call(errno)) return Error(Code::unsupported, error.what());
  return error;
}

Result<std::vector<std::string>> OsFs::list(std::string_view dir) const {
  UNBROKEN_DO(check_alive());
  UNBROKEN_TRY(Descriptor folder, lookup_.open(dir, O_RDONLY | O_DIRECTORY));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(folder.get()), ::closedir);
  if (!stream) return errno_error(errno, "opendir");
  folder.release();
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return errno_error(errno, "readdir");
  return names;
}

Result<FileInfo> OsFs::info(std::string_view path) const {
  UNBROKEN_DO(check_alive());
  struct stat status{};
  if (path.empty()) {
    if (::fstat(root_.get(), &status) != 0) return errno_error(errno, "fstat");
    return info_of(status);
  }
  UNBROKEN_TRY(const Lookup::Place place, lookup_.place(path));
  if (::fstatat(place.folder.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return errno_error(errno, "fstat");
  if (S_ISLNK(status.st_mode)) return errno_error(ELOOP, "fstat");
  return info_of(status);
}

Result<> OsFs::append(std::string_view path, Bytes data) {
  UNBROKEN_DO(check_alive());
  constexpr int kAppend = O_WRONLY | O_APPEND | kPlain;
  auto file = lookup_.open(path, kAppend);
  if (file.is(Code::not_found)) {
    file = lookup_.open(path, kAppend | O_CREAT | O_EXCL, 0600);
    if (file.ok()) UNBROKEN_DO(set_mode(file.value().get(), ownership_.file_mode(), ownership_));
  }
  if (!file.ok()) return std::move(file).error();
  struct stat status{};
  if (::fstat(file.value().get(), &status) != 0) return errno_error(errno, "fstat");
  // A second name could be somebody else's file.
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1)
    return Error(Code::bad_argument, "what stands there is not a plain file of one name");
  // On a file opened for appending Linux ignores the offset (pwrite(2), BUGS).
  if (const int number = write_whole_at(calls_, {file.value().get()}, 0, data); number != 0)
    return errno_error(number, "append");
  return Done{};
}

Result<std::uint64_t> OsFs::free_bytes() const {
  UNBROKEN_DO(check_alive());
  struct statvfs status{};
  if (::fstatvfs(root_.get(), &status) != 0) return errno_error(errno, "statvfs");
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

bool OsFs::is_in_place() const {
  struct stat here{}, there{};
  if (!path_.starts_with('/') || ::fstat(root_.get(), &here) != 0) return true;  // it cannot be told
  if (::stat(path_.c_str(), &there) != 0) return errno != ENOENT && errno != ENOTDIR;
  return here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

}  // namespace unbroken
