#include "os/lookup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/text.h"
#include "os/errno.h"

namespace unbroken {
namespace {

constexpr int kAlways = O_CLOEXEC | O_NOFOLLOW;
// openat2 says EAGAIN where a rename above raced with it.
constexpr int kRaces = 64;

int openat2(int folder, const char* path, int flags, unsigned mode) {
  open_how how{};
  // RESOLVE_NO_SYMLINKS is the better O_NOFOLLOW: it names the link also where a directory is asked for.
  how.flags = static_cast<unsigned>(flags & ~O_NOFOLLOW);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  for (int i = 0;; ++i) {
    const long opened = ::syscall(SYS_openat2, folder, path, &how, sizeof(how));
    const bool is_again = opened < 0 && (errno == EINTR || (errno == EAGAIN && i < kRaces));
    if (!is_again) return static_cast<int>(opened);
  }
}

int openat_nofollow(int folder, const char* name, int flags, unsigned mode) {
  int opened = -1;
  do {
    opened = ::openat(folder, name, flags, mode);
  } while (opened < 0 && errno == EINTR);
  if (opened >= 0 || errno != ENOTDIR) return opened;
  // O_DIRECTORY with O_NOFOLLOW calls a symbolic link "not a directory".
  struct stat status{};
  const bool is_link = ::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
  errno = is_link ? ELOOP : ENOTDIR;
  return -1;
}

bool has_openat2(int root) {
  const int opened = openat2(root, ".", O_PATH | O_DIRECTORY | kAlways, 0);
  if (opened >= 0) ::close(opened);
  return opened >= 0;
}

Result<> check_path(std::string_view path) {
  if (path.empty()) return Done{};
  for (const std::string_view segment : split(path, '/')) {
    if (segment.empty() || segment == "." || segment == ".." || segment.find('\0') != std::string_view::npos)
      return Error(Code::bad_argument, fmt::format("path \"{}\": has an empty or dotted segment", path));
  }
  return Done{};
}

}  // namespace

Lookup::Lookup(int root, bool is_portable) : root_(root), is_portable_(is_portable || !has_openat2(root)) {}

Result<Descriptor> Lookup::open(std::string_view path, int flags, unsigned mode) const {
  UNBROKEN_DO(check_path(path));
  if (path.empty()) return adopt(::openat(root_, ".", flags | kAlways, mode), "open");
  return is_portable_ ? walk(path, flags | kAlways, mode) : open_beneath(path, flags | kAlways, mode);
}

Result<Descriptor> Lookup::open_beneath(std::string_view path, int flags, unsigned mode) const {
  return adopt(openat2(root_, std::string(path).c_str(), flags, mode), "open");
}

Result<Descriptor> Lookup::walk(std::string_view path, int flags, unsigned mode) const {
  Descriptor holder;
  int folder = root_;
  std::string_view rest = path;
  for (std::size_t slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    const std::string name(rest.substr(0, slash));
    UNBROKEN_TRY(holder,
                 adopt(openat_nofollow(folder, name.c_str(), O_PATH | O_DIRECTORY | kAlways, 0), "open"));
    folder = holder.get();
    rest.remove_prefix(slash + 1);
  }
  return adopt(openat_nofollow(folder, std::string(rest).c_str(), flags, mode), "open");
}

Result<Lookup::Place> Lookup::place(std::string_view path) const {
  if (path.empty()) return Error(Code::bad_argument, "the run directory itself has no name below it");
  const std::size_t slash = path.rfind('/');
  const bool is_top = slash == std::string_view::npos;
  UNBROKEN_DO(check_path(path));
  UNBROKEN_TRY(Descriptor folder,
               open(is_top ? std::string_view() : path.substr(0, slash), O_PATH | O_DIRECTORY));
  return Place{std::move(folder), std::string(is_top ? path : path.substr(slash + 1))};
}

}  // namespace unbroken
