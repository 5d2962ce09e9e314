#include "base/utf8.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

TEST(Utf8, IsToldFromWhatIsNone) {
  for (const char* text : {"", "plain", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf"})
    EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text :
       {"\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"})
    EXPECT_FALSE(is_utf8(text)) << text;
}

TEST(Printable, LeavesOrdinaryTextAlone) {
  for (const char* text : {"", "loss/train", "a\\b", "\xc3\xa9t\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ShowsWhatWouldMoveTheCursorOrReorderTheLine) {
  EXPECT_EQ(printable("\x1b[31mx\ny\t\x7f"), "\\x1b[31mx\\x0ay\\x09\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");  // CSI as a C1 control character
  EXPECT_EQ(printable("\x9b"
                      "31m\xff"),
            "\\x9b31m\\xff");  // and as a byte
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b\xe2\x81\xa6"),
            "a\\u202eb\\u2066");
  EXPECT_EQ(printable("a\xe2\x80\xa8"
                      "b"),
            "a\\u2028b");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, LeavesTheEndsOfLinesToATextOfSeveral) {
  for (const char* text : {"", "a", "a\n", "\na\n\nb"}) EXPECT_EQ(printable_lines(text), text);
  EXPECT_EQ(printable_lines("a\r\n\x1b"), "a\\x0d\n\\x1b");
}

}  // namespace
}  // namespace unbroken
