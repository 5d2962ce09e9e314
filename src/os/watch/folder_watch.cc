#include "os/watch/folder_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "os/errno.h"

namespace unbroken {

namespace {

namespace fs = std::filesystem;
using What = FolderWatch::Change::What;

constexpr std::uint32_t kEvents = IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;
constexpr std::size_t kFoldersMax = 1024, kOpenFilesMax = 65536;
constexpr int kReadsMax = 16;  // in one call

std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

}  // namespace

Result<FolderWatch> FolderWatch::open(const std::string& folder) {
  UNBROKEN_TRY(Descriptor notify, adopt(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC), "inotify", folder));
  FolderWatch out(std::move(notify), folder);
  std::vector<Change> ignored;
  out.add("", ignored);
  if (out.folders_.empty()) return errno_error(errno, "inotify", folder);
  return out;
}

void FolderWatch::add(const std::string& name, std::vector<Change>& out) {
  if (folders_.size() >= kFoldersMax) return;
  const std::string path = below(folder_, name);
  const int watch = ::inotify_add_watch(notify_.get(), path.c_str(), kEvents);
  if (watch < 0) return;
  folders_[watch] = name;
  // What was made in it before we looked.
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code unknown;
    const std::string inner = below(name, it->path().filename().string());
    if (it->is_directory(unknown) && !it->is_symlink(unknown))
      add(inner, out);
    else if (!name.empty())
      take(watch, IN_MODIFY, it->path().filename().string(), out);
  }
}

void FolderWatch::take(int watch, unsigned what, const std::string& name, std::vector<Change>& out) {
  const auto folder = folders_.find(watch);
  if (folder == folders_.end()) return;
  const std::string full = below(folder->second, name);
  const bool is_folder = (what & IN_ISDIR) != 0;
  if ((what & IN_MODIFY) != 0 && written_.size() < kOpenFilesMax && written_.insert(full).second)
    out.push_back({What::written, full});
  if ((what & IN_CLOSE_WRITE) != 0 && written_.erase(full) != 0) out.push_back({What::closed, full});
  if ((what & IN_MOVED_TO) != 0) out.push_back({What::renamed, full});
  if (is_folder && (what & (IN_CREATE | IN_MOVED_TO)) != 0) {
    // A folder that was written elsewhere and then got its name is told once, not file by file.
    std::vector<Change> inside;
    add(full, inside);
    if ((what & IN_CREATE) != 0) out.insert(out.end(), inside.begin(), inside.end());
  }
}

std::vector<FolderWatch::Change> FolderWatch::changes() {
  std::vector<Change> out;
  alignas(inotify_event) char room[65536];
  for (int i = 0; i < kReadsMax; ++i) {
    const ssize_t count = ::read(notify_.get(), room, sizeof room);
    if (count <= 0) break;
    for (ssize_t at = 0; at < count;) {
      inotify_event event{};
      std::memcpy(&event, room + at, sizeof event);
      const char* name = room + at + sizeof event;
      if (event.len > 0) take(event.wd, event.mask, std::string(name, ::strnlen(name, event.len)), out);
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
  }
  return out;
}

}  // namespace unbroken
