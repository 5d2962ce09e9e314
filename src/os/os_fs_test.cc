#include "os/os_fs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "os/errno.h"
#include "os/test_support.h"

namespace unbroken {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<OsFs> open_fs(const std::string& path, const OsFsOptions& options = {}) {
  return OsFs::open(path, options).value();
}

Result<> write(OsFs& fs, FileId file, std::string text) {
  Result<> answer = Error(Code::bug, "no answer");
  fs.write_at(file, 0, BufferRef::of(std::move(text)), [&](Result<> result) { answer = std::move(result); });
  return answer;
}

/// A closed file with this content.
Result<> put(OsFs& fs, std::string_view path, std::string text) {
  UNBROKEN_TRY(const FileId file, fs.create_excl(path));
  auto written = write(fs, file, std::move(text));
  UNBROKEN_DO(fs.close(file));
  return written;
}

std::string content(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

mode_t mode_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

/// What each method says of `path`, by name; ok counts as "ok".
std::vector<std::string> answers_of_all(OsFs& fs, const std::string& path) {
  std::vector<std::string> answers;
  const auto note = [&](const std::string& name, const auto& result) {
    answers.push_back(name + " " + (result.ok() ? "ok" : std::string(name_of(result.error().code()))));
  };
  note("create_excl", fs.create_excl(path));
  note("open_read", fs.open_read(path));
  note("link from", fs.link(path, "elsewhere"));
  note("link to", fs.link("plain", path));
  note("rename from", fs.rename(path, "elsewhere"));
  note("rename to", fs.rename("plain", path));
  note("unlink", fs.unlink(path));
  note("make_dir", fs.make_dir(path));
  note("remove_dir", fs.remove_dir(path));
  note("sync_dir", fs.sync_dir(path));
  note("list", fs.list(path));
  note("info", fs.info(path));
  note("append", fs.append(path, as_bytes("x")));
  return answers;
}

/// Both ways of looking names up.
class Lookups : public testing::TestWithParam<bool> {
 protected:
  TemporaryDirectory run_, outside_;
  std::unique_ptr<OsFs> fs_ = open_fs(run_.path(), {.is_lookup_portable = GetParam()});
};

INSTANTIATE_TEST_SUITE_P(Os, Lookups, testing::Values(false, true),
                         [](const auto& which) { return which.param ? "component_wise" : "openat2"; });

TEST_P(Lookups, NeverGoThroughALinkedFolder) {
  ASSERT_TRUE(put(*fs_, "plain", "x").ok());
  std::ofstream(outside_ / "secret") << "secret";
  std::filesystem::create_directory_symlink(outside_.path(), run_ / "data");
  std::filesystem::create_directory_symlink(".", run_ / "inside");
  for (const std::string path : {"data/secret", "data/new", "inside/plain", "data/sub/new"}) {
    for (const std::string& answer : answers_of_all(*fs_, path))
      EXPECT_THAT(answer, HasSubstr("bad_argument")) << path;
  }
  EXPECT_EQ(content(outside_ / "secret"), "secret");
  EXPECT_THAT(names_in(outside_.path()), ElementsAre("secret"));
  EXPECT_EQ(content(run_ / "plain"), "x");
}

TEST_P(Lookups, NeverFollowALinkAtTheEnd) {
  std::ofstream(outside_ / "secret") << "secret";
  std::filesystem::create_symlink(outside_ / "secret", run_ / "file");
  std::filesystem::create_symlink(outside_ / "absent", run_ / "dangling");
  std::filesystem::create_directory_symlink(outside_.path(), run_ / "folder");
  for (const char* name : {"file", "dangling"}) {
    EXPECT_TRUE(fs_->open_read(name).is(Code::bad_argument)) << name;
    EXPECT_TRUE(fs_->append(name, as_bytes("x")).is(Code::bad_argument)) << name;
    EXPECT_TRUE(fs_->info(name).is(Code::bad_argument)) << name;
    const auto made = fs_->create_excl(name);
    ASSERT_TRUE(made.is(Code::unavailable)) << name;
    EXPECT_THAT(made.error().what(), HasSubstr("EEXIST"));
  }
  EXPECT_TRUE(fs_->list("folder").is(Code::bad_argument));
  EXPECT_TRUE(fs_->sync_dir("folder").is(Code::bad_argument));
  EXPECT_EQ(fs_->make_dir("folder").value(), Created::exists);
  EXPECT_TRUE(fs_->unlink("file").ok());
  EXPECT_EQ(content(outside_ / "secret"), "secret");
  EXPECT_THAT(names_in(outside_.path()), ElementsAre("secret"));
}

TEST_P(Lookups, RefuseDottedAndEmptySegments) {
  std::ofstream(outside_ / "secret") << "secret";
  const std::string climb = "../" + std::filesystem::path(outside_.path()).filename().string() + "/secret";
  for (const std::string& path :
       {climb, std::string(".."), std::string("."), std::string("a/../b"), std::string("/etc/passwd"),
        std::string("a//b"), std::string("a/"), std::string("a\0b", 3)}) {
    for (const std::string& answer : answers_of_all(*fs_, path))
      EXPECT_THAT(answer, HasSubstr("bad_argument")) << path;
  }
  EXPECT_EQ(content(outside_ / "secret"), "secret");
}

TEST_P(Lookups, SayWhatIsMissingAndWhatIsNoFolder) {
  ASSERT_TRUE(put(*fs_, "plain", "x").ok());
  EXPECT_TRUE(fs_->open_read("none").is(Code::not_found));
  EXPECT_TRUE(fs_->open_read("none/at/all").is(Code::not_found));
  EXPECT_TRUE(fs_->create_excl("none/new").is(Code::not_found));
  EXPECT_TRUE(fs_->list("none").is(Code::not_found));
  EXPECT_TRUE(fs_->make_dir("none/new").is(Code::not_found));
  EXPECT_TRUE(fs_->open_read("plain/below").is(Code::bad_argument));
  EXPECT_TRUE(fs_->open_read("").is(Code::bad_argument)) << "a folder is not read";
}

TEST_P(Lookups, WithstandAFolderThatKeepsTurningIntoALink) {
  ASSERT_TRUE(fs_->make_dir("data").ok());
  std::atomic<bool> is_over = false;
  std::jthread attacker([&] {
    const std::string data = run_ / "data", hidden = run_ / "hidden";
    while (!is_over) {
      ::rename(data.c_str(), hidden.c_str());
      ::symlink(outside_.path().c_str(), data.c_str());
      ::unlink(data.c_str());
      ::rename(hidden.c_str(), data.c_str());
    }
  });
  int made = 0, refused = 0;
  for (int i = 0; i < 20'000 && (made < 500 || refused < 50); ++i) {
    const auto file = fs_->create_excl("data/object");
    if (!file.ok()) {
      ++refused;
      std::this_thread::yield();  // on a busy core all tries would meet one and the same folder
      continue;
    }
    ++made;
    ASSERT_TRUE(fs_->close(file.value()).ok());
    while (!fs_->unlink("data/object").ok()) {
    }
  }
  is_over = true;
  attacker.join();
  EXPECT_GT(made, 0);
  EXPECT_THAT(names_in(outside_.path()), IsEmpty());
}

TEST(OsFs, DoesNotWaitForAPlantedPipe) {
  const TemporaryDirectory run;
  const auto fs = open_fs(run.path());
  ASSERT_EQ(::mkfifo((run / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(fs->open_read("pipe").is(Code::bad_argument));
  EXPECT_FALSE(fs->append("pipe", as_bytes("x")).ok());
}

TEST(OsFs, TellsWhatStandsInPlaceOfAFile) {
  const TemporaryDirectory run;
  const auto fs = open_fs(run.path());
  ASSERT_EQ(::mkfifo((run / "pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(run / "folder");
  std::filesystem::create_symlink("folder", run / "link");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = run / "socket";
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::copy(path.begin(), path.end(), address.sun_path);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(socket);
  for (const auto& [name, kind] : {std::pair{"pipe", "a pipe"},
                                   {"folder", "a directory"},
                                   {"socket", "a socket"},
                                   {"link", "a symbolic link"}}) {
    const auto opened = fs->open_read(name);
    ASSERT_TRUE(opened.is(Code::bad_argument)) << name;
    EXPECT_THAT(opened.error().what(), HasSubstr(kind));
  }
  for (const int number : {ENOTDIR, EISDIR, ENAMETOOLONG, ELOOP})
    EXPECT_EQ(errno_error(number, "open").code(), Code::bad_argument) << number;
  for (const int number : {EIO, EACCES, ESTALE, EPERM, EROFS})
    EXPECT_EQ(errno_error(number, "open").code(), Code::unavailable) << number;
}

TEST(OsFs, AppendsOnlyToAPlainFileOfOneName) {
  const TemporaryDirectory run, outside;
  const auto fs = open_fs(run.path());
  std::ofstream(outside / "theirs") << "theirs";
  ASSERT_EQ(::link((outside / "theirs").c_str(), (run / "metrics").c_str()), 0);
  EXPECT_TRUE(fs->append("metrics", as_bytes("x")).is(Code::bad_argument));
  EXPECT_EQ(content(outside / "theirs"), "theirs");
}

TEST(OsFs, SetsPermissionsWhateverTheUmask) {
  for (const mode_t mask : {mode_t{0}, mode_t{022}, mode_t{077}}) {
    const TemporaryDirectory base;
    const mode_t before = ::umask(mask);
    for (const bool is_group : {false, true}) {
      const std::string run = base / (is_group ? "shared/run" : "own/run");
      const auto fs = open_fs(run, {.is_created = true, .group = is_group ? std::to_string(::getgid()) : ""});
      ASSERT_TRUE(put(*fs, "file", "x").ok());
      ASSERT_TRUE(fs->append("log", as_bytes("x")).ok());
      ASSERT_TRUE(fs->make_dir("folder").ok());
      EXPECT_EQ(mode_of(run + "/.."), is_group ? 02770U : 0700U) << std::oct << mask;
      EXPECT_EQ(mode_of(run), is_group ? 02770U : 0700U) << std::oct << mask;
      EXPECT_EQ(mode_of(run + "/folder"), is_group ? 02770U : 0700U) << std::oct << mask;
      EXPECT_EQ(mode_of(run + "/file"), is_group ? 0660U : 0600U) << std::oct << mask;
      EXPECT_EQ(mode_of(run + "/log"), is_group ? 0660U : 0600U) << std::oct << mask;
    }
    ::umask(before);
  }
}

TEST(OsFs, GivesFilesToTheGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files to any group";
  const TemporaryDirectory base;
  const auto fs = open_fs(base / "run", {.is_created = true, .group = "12345"});
  ASSERT_TRUE(put(*fs, "file", "x").ok());
  ASSERT_TRUE(fs->make_dir("folder").ok());
  for (const char* name : {"run", "run/file", "run/folder"}) {
    struct stat status{};
    ASSERT_EQ(::stat((base / name).c_str(), &status), 0);
    EXPECT_EQ(status.st_gid, 12345U) << name;
  }
}

TEST(OsFs, JoinsTheGroupThatMayWriteInTheDirectory) {
  for (const bool is_shared : {false, true}) {
    const TemporaryDirectory base;
    open_fs(base / "run", {.is_created = true});
    ASSERT_EQ(::chmod((base / "run").c_str(), is_shared ? 0770 : 0700), 0);
    const auto fs = open_fs(base / "run", {.is_joining = true});
    ASSERT_TRUE(put(*fs, "file", "x").ok());
    EXPECT_EQ(mode_of(base / "run/file"), is_shared ? 0660U : 0600U);
  }
}

TEST(OsFs, LeavesWhatRootAddsToTheOwnerOfTheDirectory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  const TemporaryDirectory base;
  open_fs(base / "run", {.is_created = true});
  ASSERT_EQ(::chown((base / "run").c_str(), 12345, 23456), 0);
  const auto fs = open_fs(base / "run", {.is_joining = true});
  ASSERT_TRUE(put(*fs, "file", "x").ok());
  ASSERT_TRUE(fs->append("log", as_bytes("x")).ok());
  ASSERT_TRUE(fs->make_dir("folder").ok());
  for (const char* name : {"run/file", "run/log", "run/folder"}) {
    struct stat status{};
    ASSERT_EQ(::stat((base / name).c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, 12345U) << name;
  }
}

TEST(OsFs, NamesAGroupThatDoesNotExist) {
  const TemporaryDirectory run;
  const auto fs = OsFs::open(run.path(), {.group = "no-such-group"});
  ASSERT_TRUE(fs.is(Code::bad_argument));
  EXPECT_THAT(fs.error().what(), HasSubstr("no-such-group"));
  EXPECT_TRUE(OsFs::open(run.path(), {.group = "root"}).ok());
}

TEST(OsFs, KnowsWhetherItsPathStillLeadsToIt) {
  const TemporaryDirectory parent;
  const std::string path = parent.path() + "/run", away = parent.path() + "/away";
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  const auto fs = open_fs(path);
  EXPECT_TRUE(fs->is_in_place());
  ASSERT_EQ(::rename(path.c_str(), away.c_str()), 0);
  EXPECT_FALSE(fs->is_in_place());
  ASSERT_EQ(::symlink(away.c_str(), path.c_str()), 0);
  EXPECT_TRUE(fs->is_in_place()) << "it is found by its path";
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  EXPECT_FALSE(fs->is_in_place()) << "another one";
  ASSERT_EQ(::rmdir(path.c_str()), 0);
  ASSERT_EQ(::rename(away.c_str(), path.c_str()), 0);
  EXPECT_TRUE(fs->is_in_place());
}

TEST(OsFs, OpensOnlyADirectory) {
  const TemporaryDirectory base;
  std::ofstream(base / "file") << "x";
  std::filesystem::create_directory(base / "real");
  std::filesystem::create_directory_symlink("real", base / "link");
  EXPECT_TRUE(OsFs::open(base / "none").is(Code::not_found));
  EXPECT_TRUE(OsFs::open(base / "file").is(Code::bad_argument));
  EXPECT_TRUE(OsFs::open(base / "file", {.is_created = true}).is(Code::bad_argument));
  EXPECT_TRUE(OsFs::open("").is(Code::bad_argument));
  const auto through = OsFs::open(base / "link///");
  ASSERT_TRUE(through.ok()) << "the user's own path may hold links";
  EXPECT_EQ(through.value()->path(), base / "real");
}

TEST(OsFs, ReportsWhoMayInterfere) {
  const TemporaryDirectory run;
  const auto fs = open_fs(run.path());
  const std::string_view folders[] = {"journal", "data"};
  ASSERT_TRUE(fs->make_dir("journal").ok());
  ASSERT_TRUE(fs->trust(folders).ok());
  EXPECT_FALSE(fs->trust(folders).value().is_owner_foreign);
  EXPECT_EQ(fs->trust(folders).value().owner, ::geteuid());
  ASSERT_EQ(::chmod((run / "journal").c_str(), 0777), 0);
  EXPECT_TRUE(fs->trust().ok());
  const auto open_journal = fs->trust(folders);
  ASSERT_TRUE(open_journal.is(Code::bad_argument));
  EXPECT_THAT(open_journal.error().what(), HasSubstr("/journal"));
  EXPECT_THAT(open_journal.error().next_command(), HasSubstr("chmod o-w"));
  ASSERT_EQ(::chmod(run.path().c_str(), 01777), 0);
  EXPECT_TRUE(fs->trust().is(Code::bad_argument));
  ASSERT_EQ(::chmod(run.path().c_str(), 0755), 0);
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a directory away";
  ASSERT_EQ(::chown(run.path().c_str(), 12345, 12345), 0);
  EXPECT_TRUE(fs->trust().value().is_owner_foreign);
}

TEST(OsFs, TellsMemoryFromDisks) {
  const TemporaryDirectory run;
  EXPECT_FALSE(open_fs(run.path())->kind().value().name.empty());
  EXPECT_EQ(open_fs("/proc")->kind().value().name, "0x9fa0") << "linux/magic.h, PROC_SUPER_MAGIC";
  const auto memory = open_fs("/dev/shm")->kind().value();
  EXPECT_EQ(memory.is_memory, memory.name == "tmpfs");
}

TEST(OsFs, DescriptorsAreNeverTheStandardOnes) {
  const TemporaryDirectory run;
  EXPECT_EQ(run_in_child([&] {
              for (int file = 0; file < 3; ++file) ::close(file);
              const auto fs = open_fs(run.path());
              if (!put(*fs, "file", "x").ok() || !fs->append("log", as_bytes("x")).ok()) return 1;
              const auto made = fs->create_excl("new"), opened = fs->open_read("file");
              if (!made.ok() || !opened.ok()) return 2;
              if (static_cast<int>(made.value()) < 3 || static_cast<int>(opened.value()) < 3) return 3;
              for (int file = 0; file < 3; ++file)
                if (::fcntl(file, F_GETFD) != -1) return 4;
              return 0;
            }),
            0);
}

TEST(OsFs, DescriptorsAreNotInheritedByPrograms) {
  const TemporaryDirectory run;
  const auto fs = open_fs(run.path());
  const auto made = fs->create_excl("file").value();
  EXPECT_NE(::fcntl(static_cast<int>(made), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_TRUE(fs->close(made).ok());
}

TEST(OsFs, IsInertInAForkedChild) {
  const TemporaryDirectory run;
  const auto fs = open_fs(run.path());
  ASSERT_TRUE(put(*fs, "plain", "x").ok());
  const FileId file = fs->create_excl("file").value();
  EXPECT_EQ(run_in_child([&] {
              for (const std::string& answer : answers_of_all(*fs, "plain"))
                if (!answer.ends_with(" stopped")) return 1;
              if (!write(*fs, file, "child").is(Code::stopped)) return 2;
              if (!fs->sync(file).is(Code::stopped) || !fs->close(file).is(Code::stopped)) return 3;
              // What the child opens itself is its own.
              const auto own = OsFs::open(run.path());
              return own.ok() && own.value()->open_read("plain").ok() ? 0 : 4;
            }),
            0);
  ASSERT_TRUE(write(*fs, file, "parent").ok());
  EXPECT_TRUE(fs->close(file).ok());
  EXPECT_EQ(content(run / "file"), "parent");
}

// failure: pytorch/pytorch#175248
TEST(OsFs, FullFileSystemIsNoSpace) {
  const TemporaryDirectory base;
  const std::string run = base / "full";
  std::filesystem::create_directory(run);
  if (::mount("none", run.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "may not mount; the errno alone is tested in OsFs.FileSizeLimitIsNoSpace";
  {
    const auto fs = open_fs(run);
    EXPECT_EQ(fs->kind().value().name, "tmpfs");
    EXPECT_LE(fs->free_bytes().value(), 1U << 20);
    EXPECT_TRUE(put(*fs, "large", std::string(2 << 20, 'x')).is(Code::no_space));
    EXPECT_TRUE(fs->append("log", as_bytes("x")).is(Code::no_space));
    EXPECT_EQ(fs->free_bytes().value(), 0U);
    EXPECT_TRUE(fs->unlink("large").ok());
    EXPECT_TRUE(put(*fs, "small", "x").ok());
  }
  EXPECT_EQ(::umount(run.c_str()), 0);
}

// failure: pytorch/pytorch#175248
TEST(OsFs, FileSizeLimitIsNoSpace) {
  const TemporaryDirectory run;
  EXPECT_EQ(run_in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              const auto fs = open_fs(run.path());
              return put(*fs, "file", std::string(10'000, 'x')).is(Code::no_space) ? 0 : 2;
            }),
            0);
}

TEST(OsFs, ReadOnlyDirectoryIsUnavailableAndNothingElse) {
  const TemporaryDirectory run;
  std::ofstream(run / "file") << "kept";
  ASSERT_EQ(::chmod((run / "file").c_str(), 0644), 0);
  ASSERT_EQ(::chmod(run.path().c_str(), 0555), 0);
  EXPECT_EQ(run_in_child([&] {
              if (::geteuid() == 0 && ::setuid(65534) != 0) return 1;
              const auto fs = open_fs(run.path());
              const auto made = fs->create_excl("new");
              if (!made.is(Code::unavailable)) return 2;
              if (made.error().what().find("EACCES") == std::string::npos) return 3;
              if (!fs->make_dir("new").is(Code::unavailable) || !fs->unlink("file").is(Code::unavailable))
                return 4;
              if (!fs->link("file", "new").is(Code::unavailable)) return 5;
              return fs->open_read("file").ok() && fs->list("").ok() && fs->sync_dir("").ok() ? 0 : 6;
            }),
            0);
  EXPECT_EQ(content(run / "file"), "kept");
}

}  // namespace
}  // namespace unbroken
