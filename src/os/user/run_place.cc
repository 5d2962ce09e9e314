#include "os/user/run_place.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/layout.h"
#include "world/advice.h"

namespace unbroken {

namespace {

namespace fs = std::filesystem;

bool is_run(const fs::path& directory) {
  std::error_code error;
  return fs::exists(directory / kRunKey, error) && fs::is_directory(directory / kJournalPrefix, error);
}

}  // namespace

Result<> check_run_place(const std::string& directory) {
  std::error_code error;
  const fs::path absolute = fs::absolute(directory, error);
  if (error) return Done{};  // whoever opens it says what is wrong
  fs::path way;
  for (const fs::path& part : absolute) {
    way /= part;
    if (!fs::is_symlink(fs::symlink_status(way, error)) || fs::exists(way, error)) continue;
    const std::string link = way.string(), target = fs::read_symlink(way, error).string();
    return Error(Code::bad_argument,
                 fmt::format("{}: a symbolic link to {}, which is not there: make it or remove the link",
                             link, target))
        .next(path_command(link));
  }
  const fs::path real = fs::weakly_canonical(absolute, error);
  if (error || is_run(real)) return Done{};
  if (real == real.root_path())
    return Error(
               Code::bad_argument,
               fmt::format("{}: the root of the file system is no place for a run: give a directory below it",
                           directory))
        .next("df -h");
  for (fs::path outer = real.parent_path(); outer != outer.root_path(); outer = outer.parent_path())
    if (is_run(outer))
      return Error(Code::bad_argument,
                   fmt::format("{} lies inside the run {}: give a run a directory of its own", real.string(),
                               outer.string()))
          .next(fmt::format("unbroken ls {}", shell_word(outer.string())));
  return Done{};
}

}  // namespace unbroken
