#include "os/watch/growing_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "os/descriptor.h"

namespace unbroken {

GrowingFile::GrowingFile(std::string path, From from) : path_(std::move(path)) {
  struct stat info{};
  if (from == From::start || ::stat(path_.c_str(), &info) != 0) return;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  offset_ = static_cast<std::uint64_t>(info.st_size);
}

std::size_t GrowingFile::read(std::span<char> into) {
  // Not blocking: a pipe of that name must not hold us up.
  const auto file = adopt(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), "open", path_);
  struct stat info{};
  if (!file.ok() || ::fstat(file.value().get(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  const bool is_same = info.st_dev == device_ && info.st_ino == inode_;
  if (!is_same || static_cast<std::uint64_t>(info.st_size) < offset_) {
    has_restarted_ = has_restarted_ || inode_ != 0;
    device_ = info.st_dev;
    inode_ = info.st_ino;
    offset_ = 0;
  }
  const ssize_t count = ::pread(file.value().get(), into.data(), into.size(), static_cast<off_t>(offset_));
  if (count <= 0) return 0;
  offset_ += static_cast<std::uint64_t>(count);
  return static_cast<std::size_t>(count);
}

bool GrowingFile::take_restart() {
  return std::exchange(has_restarted_, false);
}

std::string file_stamp(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return {};
  return fmt::format("{}.{}.{}.{}.{}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

}  // namespace unbroken
