#include "os/user/user_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace unbroken {

namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

Error failed(const std::string& path, const char* doing) {
  const int why = errno;
  const Code code = why == ENOENT                    ? Code::not_found
                    : why == EISDIR                  ? Code::bad_argument
                    : why == ENOSPC || why == EDQUOT ? Code::no_space
                                                     : Code::unavailable;
  return Error(code, fmt::format("{}: cannot be {}: {}", path, doing, std::strerror(why)));
}

}  // namespace

Result<std::string> read_user_file(const std::string& path, std::size_t bytes_max) {
  const File file(std::fopen(path.c_str(), "rbe"));
  if (!file) return failed(path, "opened");
  std::string text;
  char piece[65536];
  while (const std::size_t n = std::fread(piece, 1, sizeof piece, file.get())) {
    text.append(piece, n);
    if (text.size() > bytes_max)
      return Error(Code::bad_argument, fmt::format("{}: is larger than {} bytes", path, bytes_max));
  }
  if (std::ferror(file.get())) return failed(path, "read");
  return text;
}

Result<> write_user_file(const std::string& path, std::string_view text) {
  File file(std::fopen(path.c_str(), "wbe"));
  if (!file) return failed(path, "opened for writing");
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (!is_written || std::fflush(file.get()) != 0) return failed(path, "written");
  if (std::fclose(file.release()) != 0) return failed(path, "written");
  return Done{};
}

}  // namespace unbroken
