#include "os/user/user_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "os/direct/file_io.h"
#include "os/errno.h"

namespace unbroken {

namespace {

namespace fs = std::filesystem;

Result<> sync_folder(const std::string& path) {
  UNBROKEN_TRY(const Descriptor folder,
               adopt(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open", path));
  // Some file systems cannot sync a folder; then a rename is all that can be had.
  if (::fsync(folder.get()) != 0 && errno != EINVAL) return errno_error(errno, "fsync", path);
  return Done{};
}

Error in_the_way(const std::string& path) {
  return Error(Code::bad_argument, fmt::format("{}: it is there already", path));
}

}  // namespace

Result<UserFileReader> UserFileReader::open(const std::string& path) {
  // Not blocking: a pipe must not hold us up before we see that it is one.
  UNBROKEN_TRY(Descriptor file,
               adopt(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), "open", path));
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return errno_error(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) return Error(Code::bad_argument, fmt::format("{}: it is no plain file", path));
  return UserFileReader(std::move(file), static_cast<std::uint64_t>(info.st_size));
}

Result<UserFileReader> UserFileReader::open_in(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  std::error_code error;
  if (name.find('/') != std::string::npos || fs::is_symlink(path, error))
    return Error(Code::bad_argument, fmt::format("{}: a symbolic link leads out of the directory", path));
  return open(path);
}

Result<> UserFileReader::read(std::uint64_t offset, MutableBytes into) const {
  const ReadCount count = read_whole_at(kSyscalls, {file_.get()}, offset, into);
  if (count.error != 0) return errno_error(count.error, "read", "the file");
  if (count.bytes != into.size()) return Error(Code::corrupt, "the file ends before what it says is there");
  return Done{};
}

bool is_user_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_there(const std::string& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

bool is_empty_folder(const std::string& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() == fs::file_type::directory && fs::is_empty(path, error);
}

Result<> check_can_append(const std::string& path) {
  const auto refused = [](const std::string& why) { return Error(Code::bad_argument, why); };
  std::error_code error;
  if (path.ends_with('/') || is_user_folder(path))
    return refused("that is a directory, and a file is needed");
  if (fs::exists(path, error)) {
    if (::access(path.c_str(), W_OK) != 0) return refused("the file may not be written");
    return Done{};
  }
  const std::string folder = folder_of(path);
  if (!is_user_folder(folder)) return refused(fmt::format("there is no directory {}", folder));
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return refused(fmt::format("nothing may be written to the directory {}", folder));
  return Done{};
}

Result<> check_can_append_plainly(const std::string& path) {
  UNBROKEN_DO(check_can_append(path));
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return Done{};
  if (fs::is_regular_file(status) && fs::hard_link_count(path, error) == 1) return Done{};
  return Error(Code::bad_argument, "what stands there is not a plain file of one name");
}

Result<std::vector<std::string>> list_user_folder(const std::string& path) {
  std::error_code error;
  fs::directory_iterator entries(path, error);
  if (error) return errno_error(error.value(), "list", path);
  std::vector<std::string> names;
  for (const auto end = fs::directory_iterator(); entries != end; entries.increment(error)) {
    if (error) break;
    names.push_back(entries->path().filename().string());
  }
  if (error) return errno_error(error.value(), "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string last_name_of(const std::string& path) {
  return fs::path(path).filename().string();
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

Result<NewUserFile> NewUserFile::create(const std::string& path) {
  for (int number = 1;; ++number) {
    std::string temporary = fmt::format("{}.partial-{}-{}", path, ::getpid(), number);
    const int opened = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (opened < 0 && errno == EEXIST) continue;
    UNBROKEN_TRY(Descriptor file, adopt(opened, "create", temporary));
    return NewUserFile(std::move(file), path, std::move(temporary));
  }
}

NewUserFile::~NewUserFile() {
  if (file_.get() >= 0) ::unlink(temporary_.c_str());
}

Result<> NewUserFile::write(std::uint64_t offset, Bytes bytes) {
  if (const int error = write_whole_at(kSyscalls, {file_.get()}, offset, bytes); error != 0)
    return errno_error(error, "write", temporary_);
  return Done{};
}

Result<> NewUserFile::finish(IfThere if_there) {
  if (::fsync(file_.get()) != 0) return errno_error(errno, "fsync", temporary_);
  if (if_there == IfThere::replace) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return errno_error(errno, "rename", path_);
  } else if (::link(temporary_.c_str(), path_.c_str()) == 0) {
    ::unlink(temporary_.c_str());
  } else if (errno == EEXIST) {
    return in_the_way(path_);
  } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
    return errno == EEXIST ? in_the_way(path_) : errno_error(errno, "rename", path_);
  }
  file_ = Descriptor();
  return sync_folder(folder_of(path_));
}

Result<> move_folder(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) return in_the_way(to);
    return errno_error(errno, "rename", to);
  }
  return sync_folder(folder_of(to));
}

Error about_file(Error error, const std::string& path) {
  const std::string_view what = error.what();
  const bool is_named = what.starts_with(path) && what.size() > path.size() &&
                        (what[path.size()] == ':' || what[path.size()] == '/');
  return is_named ? error : std::move(error).with(path);
}

}  // namespace unbroken
