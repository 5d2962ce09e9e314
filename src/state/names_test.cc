#include "state/names.h"

#include <gtest/gtest.h>

#include <set>

#include "state/tree.h"

namespace unbroken {
namespace {

TEST(Names, AreWhatAPersonWouldWrite) {
  EXPECT_EQ(join_name("model", segment_of("weight")), "model.weight");
  EXPECT_EQ(join_name("", segment_of("model")), "model");
  EXPECT_EQ(segment_of_index(3), "3");
  EXPECT_EQ(segment_of("a/b c"), "a/b c");
  EXPECT_EQ(segment_of("a.b\\c"), "a\\.b\\\\c");
  EXPECT_EQ(segment_of("1"), "\"1\"");
  EXPECT_EQ(segment_of(""), "\"\"");
  EXPECT_EQ(segment_of("\"x"), "\"\\\"x\"");
  EXPECT_EQ(segment_of("a\nb"), "a\\x0ab");
  EXPECT_EQ(segment_of_key(Node{std::int64_t{-1}}), "-1");
  EXPECT_EQ(segment_of_key(Node{true}), "(true)");
  EXPECT_EQ(segment_of_key(Node{None{}}), "(null)");
}

TEST(Names, TellEveryTwoKeysApart) {
  const std::vector<const char*> keys = {"null",
                                         "true",
                                         "1",
                                         "-1",
                                         "12",
                                         "18446744073709551615",
                                         R"({"int":"18446744073709551616"})",
                                         R"("")",
                                         R"("1")",
                                         R"("-1")",
                                         R"("\"1\"")",
                                         R"("\"")",
                                         R"("null")",
                                         "\"(null)\"",
                                         "\"(true)\"",
                                         R"("18446744073709551616")",
                                         R"("a.b")",
                                         R"("a\\.b")",
                                         R"("a\\b")",
                                         R"("a\nb")",
                                         R"("a\\x0ab")",
                                         "\"\xc2\x85\"",
                                         R"("\\x85")",
                                         R"("-")",
                                         R"("1 ")",
                                         R"("+1")",
                                         R"({"float":"3ff8000000000000"})",
                                         R"({"bytes":"31"})",
                                         R"({"tuple":[1]})",
                                         R"({"tuple":["1"]})",
                                         R"({"str16":"00d8"})",
                                         R"({"dtype":"F32"})"};
  std::set<std::string> names;
  for (const char* key : keys) {
    const std::string name = segment_of_key(parse_tree(key).value());
    EXPECT_TRUE(names.insert(name).second) << key << " -> " << name;
    EXPECT_TRUE(check_name(join_name("a", name)).ok()) << name;
  }
}

TEST(Names, JoinWithoutAmbiguity) {
  EXPECT_NE(join_name(join_name("", segment_of("a")), segment_of("b")), segment_of("a.b"));
  EXPECT_NE(join_name(join_name("", segment_of("a\\")), segment_of("b")), segment_of("a\\.b"));
}

TEST(Names, RefusesWhatMayNotBeOne) {
  const std::string long_name(kNameBytesMax, 'n');
  EXPECT_TRUE(check_name(long_name).ok());
  for (const std::string& name :
       {std::string(), long_name + "n", std::string("a\0b", 3), std::string("a\n"), std::string("\x7f"),
        std::string("\xc2\x9b"), std::string("\xff"), std::string("\xc0\x80"), std::string("\xed\xa0\x80"),
        std::string("\xf4\x90\x80\x80"), std::string("\xe2\x82"), std::string("__metadata__")})
    EXPECT_TRUE(check_name(name).is(Code::bad_argument)) << name;
  EXPECT_TRUE(check_name("\xe2\x82\xac/../x").ok());
}

}  // namespace
}  // namespace unbroken
