#include "os/user/user_file.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

TEST(UserFile, ReadsBackWhatItWrote) {
  const std::string path = testing::TempDir() + "/unbroken_user_file";
  ASSERT_TRUE(write_user_file(path, "first, and longer").ok());
  ASSERT_TRUE(write_user_file(path, std::string("a\0b\n", 4)).ok());
  EXPECT_EQ(read_user_file(path).value(), std::string("a\0b\n", 4));
  EXPECT_TRUE(read_user_file(path, 3).is(Code::bad_argument));
}

TEST(UserFile, SaysWhatIsWrong) {
  EXPECT_TRUE(read_user_file("/nowhere/at/all").is(Code::not_found));
  EXPECT_TRUE(read_user_file(testing::TempDir()).is(Code::bad_argument));
  EXPECT_FALSE(write_user_file("/nowhere/at/all", "x").ok());
  EXPECT_TRUE(write_user_file("/dev/full", "x").is(Code::no_space));
}

}  // namespace
}  // namespace unbroken
