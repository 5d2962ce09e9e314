#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "os/child.h"
#include "os/test_support.h"
#include "os/watch/folder_watch.h"
#include "os/watch/growing_file.h"
#include "os/watch/input.h"

namespace unbroken {
namespace {

using namespace std::chrono_literals;
using Change = FolderWatch::Change;
using What = Change::What;

void write(const std::string& path, const std::string& text, std::ios::openmode how = std::ios::trunc) {
  std::ofstream(path, std::ios::out | how) << text;
}

TEST(FolderWatch, TellsOfWritingClosingAndRenaming) {
  const TemporaryDirectory folder;
  auto watch = FolderWatch::open(folder.path());
  ASSERT_TRUE(watch.ok()) << watch.error().what();
  EXPECT_TRUE(watch.value().changes().empty());
  write(folder / "a.tmp", "x");
  std::filesystem::rename(folder / "a.tmp", folder / "a");
  const std::vector<Change> expected{{What::written, "a.tmp"}, {What::closed, "a.tmp"}, {What::renamed, "a"}};
  EXPECT_EQ(watch.value().changes(), expected);
}

TEST(FolderWatch, TellsOfWritingOnceUntilItIsClosed) {
  const TemporaryDirectory folder;
  auto watch = FolderWatch::open(folder.path());
  ASSERT_TRUE(watch.ok());
  std::ofstream file(folder / "log");
  for (int i = 0; i < 3; ++i) {
    file << i << std::flush;
    EXPECT_EQ(watch.value().changes().size(), i == 0 ? 1U : 0U);
  }
}

TEST(FolderWatch, SeesAFileThatIsCutToNothing) {
  const TemporaryDirectory folder;
  write(folder / "a", "old");
  auto watch = FolderWatch::open(folder.path());
  ASSERT_TRUE(watch.ok());
  const std::ofstream file(folder / "a", std::ios::trunc);
  EXPECT_EQ(watch.value().changes(), (std::vector<Change>{{What::written, "a"}}));
}

TEST(FolderWatch, SeesIntoFoldersThatAreNew) {
  const TemporaryDirectory folder;
  auto watch = FolderWatch::open(folder.path());
  ASSERT_TRUE(watch.ok());
  std::filesystem::create_directories(folder / "one/two");
  write(folder / "one/two/early", "x");
  const std::vector<Change> early = watch.value().changes();
  ASSERT_FALSE(early.empty());
  EXPECT_EQ(early.front(), (Change{What::written, "one/two/early"}));
  write(folder / "one/two/late", "x");
  EXPECT_EQ(watch.value().changes().front(), (Change{What::written, "one/two/late"}));
}

TEST(GrowingFile, GivesWhatIsAddedAndBeginsAnewWhereItIsReplaced) {
  const TemporaryDirectory folder;
  const std::string path = folder / "metrics.csv";
  GrowingFile file(path, GrowingFile::From::end);
  char room[64];
  const auto text = [&] { return std::string(room, file.read(room)); };
  EXPECT_EQ(text(), "");
  write(path, "abc");
  EXPECT_EQ(text(), "abc");
  write(path, "def", std::ios::app);
  EXPECT_EQ(text(), "def");
  EXPECT_FALSE(file.take_restart());
  write(path, "new");
  EXPECT_EQ(text(), "new");
  EXPECT_TRUE(file.take_restart());
  EXPECT_FALSE(file.take_restart());
  EXPECT_EQ(GrowingFile(path, GrowingFile::From::end).read(room), 0U);
  EXPECT_EQ(GrowingFile(path, GrowingFile::From::start).read(room), 3U);
  EXPECT_EQ(GrowingFile(folder.path(), GrowingFile::From::start).read(room), 0U);
}

TEST(Child, GivesItsOutputThroughAPipe) {
  auto child = Child::start({.command = {"sh", "-c", "printf ab; printf cd"},
                             .env = {},
                             .stdout_file = {},
                             .stderr_file = {},
                             .is_output_read = true});
  ASSERT_TRUE(child.ok()) << child.error().what();
  std::string said;
  char room[3];
  while (child.value().output() >= 0) {
    wait_for_input({child.value().output(), -1}, 10s);
    said.append(room, child.value().read_output(room));
  }
  EXPECT_EQ(said, "abcd");
  const auto end = child.value().wait(60s);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->number, 0);
}

}  // namespace
}  // namespace unbroken
