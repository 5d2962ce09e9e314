#include "world/advice.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace unbroken {
namespace {

std::string next_of(Code code, int number = 0, std::string_view directory = "/runs/mlp",
                    std::string_view object = {}) {
  return advised(Error(code, "what").from_system(number), directory, object).next_command();
}

TEST(Advice, NamesTheDirectoryAndWhatToRun) {
  EXPECT_EQ(next_of(Code::journal_unreadable), "unbroken doctor /runs/mlp");
  EXPECT_EQ(next_of(Code::no_space, ENOSPC), "df -h /runs/mlp; df -i /runs/mlp");
  EXPECT_EQ(next_of(Code::no_space, EDQUOT), "quota -s");
  EXPECT_EQ(next_of(Code::unavailable, EIO), "findmnt -T /runs/mlp");
  EXPECT_EQ(next_of(Code::unavailable, EACCES, "/runs/mlp", "data/x"), "namei -l /runs/mlp/data/x");
  EXPECT_EQ(next_of(Code::bad_argument, ENOTDIR, "/runs/mlp", "data"), "namei -l /runs/mlp/data");
}

TEST(Advice, LeavesWhatSaysItBetterOrNeedsNone) {
  EXPECT_EQ(advised(Error(Code::unavailable, "x").next("do this"), "/runs").next_command(), "do this");
  for (const Code code : {Code::fenced, Code::stopped, Code::mismatch, Code::bug, Code::bad_argument})
    EXPECT_EQ(next_of(code), "");
  EXPECT_EQ(next_of(Code::unavailable, EIO, ""), "") << "nobody knows where";
}

TEST(Advice, IsACommandWhateverTheDirectoryIsCalled) {
  EXPECT_EQ(next_of(Code::journal_unreadable, 0, "/my runs/it's"), "unbroken doctor '/my runs/it'\\''s'");
  EXPECT_EQ(path_command("/my runs", "journal"), "namei -l '/my runs/journal'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("~/x"), "'~/x'");
}

}  // namespace
}  // namespace unbroken
