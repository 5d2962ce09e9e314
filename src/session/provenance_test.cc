#include "session/provenance.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

TEST(ShownCommand, IsWhatAShellWouldTake) {
  EXPECT_EQ(shown_command({"python", "train.py", "--lr", "0.1", "a b", ""}),
            "python train.py --lr 0.1 'a b' ''");
  EXPECT_EQ(shown_command({"it's"}), "'it'\\''s'");
  EXPECT_EQ(shown_command({}), "");
  EXPECT_EQ(shown_command({"a\nb\xff"}), "'a?b?'");
}

TEST(ShownCommand, LeavesSecretsOut) {
  EXPECT_EQ(shown_command({"t", "--hub-token", "abc", "x"}), "t --hub-token *** x");
  EXPECT_EQ(shown_command({"t", "--API_KEY=abc", "x"}), "t --API_KEY=*** x");
  EXPECT_EQ(shown_command({"t", "wandb.api_key=a b"}), "t wandb.api_key=***");
  EXPECT_EQ(shown_command({"t", "--password", "--verbose", "x"}), "t --password --verbose x");
  EXPECT_EQ(shown_command({"t", "--keys", "3", "--token-count=4"}), "t --keys 3 --token-count=4");
  EXPECT_EQ(shown_command({"t", "https://me:pw@host/a@b"}), "t https://***@host/a@b");
  EXPECT_EQ(shown_command({"t", "--url=https://me:pw@host"}), "t --url=https://***@host");
}

TEST(ShownCommand, IsCutShort) {
  const std::string shown = shown_command({std::string(20000, 'a')});
  EXPECT_EQ(shown.size(), 8192u + 4);
  EXPECT_TRUE(shown.ends_with(" ..."));
}

}  // namespace
}  // namespace unbroken
