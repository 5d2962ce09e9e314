#include "os/user/user_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "os/errno.h"
#include "world/advice.h"

namespace unbroken {

namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

Error failed(const std::string& path, std::string_view call) {
  return advised(errno_error(errno, call, path), path);
}

}  // namespace

Result<std::string> read_user_file(const std::string& path, std::size_t bytes_max) {
  const File file(std::fopen(path.c_str(), "rbe"));
  if (!file) return failed(path, "open");
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
  if (!file) return failed(path, "create");
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (!is_written || std::fflush(file.get()) != 0) return failed(path, "write");
  if (std::fclose(file.release()) != 0) return failed(path, "write");
  return Done{};
}

}  // namespace unbroken
