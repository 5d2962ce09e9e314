#include "os/user/work_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "os/descriptor.h"
#include "os/errno.h"

namespace unbroken {

namespace fs = std::filesystem;

Result<std::string> make_work_folder(const std::string& base, const std::string& stem) {
  std::error_code error;
  if (base.empty()) {
    const fs::path temporary = fs::temp_directory_path(error);
    std::string pattern =
        ((error ? fs::path("/tmp") : temporary) / fmt::format("unbroken-{}-XXXXXX", stem)).string();
    if (::mkdtemp(pattern.data()) == nullptr) return errno_error(errno, "mkdtemp", pattern);
    return pattern;
  }
  const fs::path absolute = fs::absolute(base, error);
  if (error) return errno_error(error.value(), "getcwd", base);
  fs::create_directories(absolute, error);
  if (error) return errno_error(error.value(), "mkdir", base);
  for (int number = 1;; ++number) {
    const std::string path = (absolute / fmt::format("{}-{:04}", stem, number)).string();
    if (::mkdir(path.c_str(), 0700) == 0) return path;
    if (errno != EEXIST) return errno_error(errno, "mkdir", path);
  }
}

Result<> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0) return errno_error(errno, "mkdir", path);
  return Done{};
}

void remove_work_folder(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

Result<OutputFile> OutputFile::create(const std::string& path, std::uint64_t bytes_max) {
  UNBROKEN_TRY(Descriptor file,
               adopt(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), "open", path));
  return OutputFile(std::move(file), bytes_max);
}

void OutputFile::add(std::string_view text) {
  if (is_full_) return;
  is_full_ = text.size() > left_;
  const std::string_view kept = text.substr(0, left_);
  left_ -= kept.size();
  for (std::string_view part : {kept, std::string_view(is_full_ ? "\n[the rest was not kept]\n" : "")})
    while (!part.empty()) {
      const ssize_t count = ::write(file_.get(), part.data(), part.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      part.remove_prefix(static_cast<std::size_t>(count));
    }
}

std::vector<std::string> FileTail::lines() {
  std::vector<std::string> out;
  const auto file = adopt(::open(path_.c_str(), O_RDONLY | O_CLOEXEC), "open", path_);
  if (!file.ok()) return out;
  std::array<char, 65536> room{};
  for (;;) {
    const ssize_t count = ::pread(file.value().get(), room.data(), room.size(), static_cast<off_t>(offset_));
    if (count <= 0) break;
    offset_ += static_cast<std::uint64_t>(count);
    rest_.append(room.data(), static_cast<std::size_t>(count));
  }
  std::size_t begin = 0;
  for (std::size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    out.push_back(rest_.substr(begin, end - begin));
    begin = end + 1;
  }
  rest_.erase(0, begin);
  return out;
}

}  // namespace unbroken
