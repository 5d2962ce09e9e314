#include "state/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "state/names.h"

namespace unbroken {
namespace {

/// One value of every kind.
const std::vector<const char*> kValues = {
    "null",
    "true",
    "0",
    "-9223372036854775808",
    "9223372036854775807",
    "18446744073709551615",
    R"({"int":"18446744073709551616"})",
    R"({"int":"-9223372036854775809"})",
    R"({"float":"7ff8000000000123"})",
    R"({"float":"8000000000000000"})",
    R"({"complex":["3ff0000000000000","fff0000000000000"]})",
    "\"\"",
    "\"na\xc3\xafve \\u0000 \\\"x\\\"\"",
    R"({"str16":"610000d8"})",
    R"({"bytes":""})",
    R"({"bytes":"00ff"})",
    R"({"tensor":"model.a/b"})",
    R"({"array":"rng.numpy"})",
    R"({"numpy":{"bits":"000000000000f03f","dtype":"F64"}})",
    R"({"dtype":"BF16"})",
    "[]",
    "[1,[2,[null]]]",
    R"({"tuple":[]})",
    R"({"tuple":[1,{"tuple":["x"]}]})",
    R"({"dict":[]})",
    R"({"dict":[["b",1],["a",2],[1,3],["1",4],[null,5],[{"tuple":[0,1]},6]]})",
    R"({"items":[["k",{"tensor":"t"}]],"kind":"OrderedDict"})",
    R"({"items":[["k",3]],"kind":"Counter"})",
    R"({"items":[[{"float":"3ff8000000000000"},[]]],"kind":"defaultdict_none"})",
    R"({"items":[3,4],"kind":"Size"})",
    R"({"items":["a","b",1],"kind":"set"})",
    R"({"items":[{"items":[1],"kind":"frozenset"}],"kind":"frozenset"})",
    R"({"items":[1,1],"kind":"deque"})",
    R"({"items":[1,1],"kind":"deque","maxlen":2})",
};

TEST(Tree, GivesBackEveryKind) {
  for (const char* text : kValues) {
    const auto node = parse_tree(text);
    ASSERT_TRUE(node.ok()) << text << ": " << node.error().what();
    EXPECT_EQ(tree_text(node.value()), text);
    EXPECT_EQ(canonical_json(parse_json(text).value()).value(), text);
  }
}

TEST(Tree, KeepsEveryTwoValuesApart) {
  for (const char* a : kValues)
    for (const char* b : kValues)
      EXPECT_EQ(parse_tree(a).value() == parse_tree(b).value(), std::string_view(a) == b) << a << " " << b;
}

TEST(Tree, RefusesASecondSpelling) {
  for (const char* text : {
           "1.0",
           "1e3",
           "18446744073709551616",
           R"({"int":"5"})",
           R"({"int":"-9223372036854775808"})",
           R"({"int":"018446744073709551616"})",
           R"({"int":"+18446744073709551616"})",
           R"({"int":""})",
           R"({"int":"-"})",
           R"({"float":"7FF8000000000000"})",
           R"({"float":"7ff8"})",
           R"({"float":1})",
           R"({"complex":["3ff0000000000000"]})",
           R"({"str16":"6100"})",
           R"({"str16":"3dd800de"})",
           R"({"str16":"6"})",
           R"({"str16":"610000"})",
           R"({"bytes":"0"})",
           R"({"bytes":"FF"})",
           R"({"tensor":""})",
           R"({"tensor":"a\u0000b"})",
           R"({"array":7})",
           R"({"numpy":{"bits":"00","dtype":"F64"}})",
           R"({"numpy":{"bits":"02","dtype":"BOOL"}})",
           R"({"numpy":{"bits":"00"}})",
           R"({"dtype":"float32"})",
           R"({"tuple":{}})",
           R"({"dict":{}})",
           R"({"dict":[["a"]]})",
           R"({"dict":[["a",1,2]]})",
           R"({"dict":[["a",1],["a",2]]})",
           R"({"dict":[[1,1],[true,2]]})",
           R"({"dict":[[1,1],[{"float":"3ff0000000000000"},2]]})",
           R"({"dict":[[0,1],[{"float":"8000000000000000"},2]]})",
           R"({"dict":[[1,1],[{"numpy":{"bits":"0100","dtype":"I16"}},2]]})",
           R"({"dict":[[1,1],[{"numpy":{"bits":"003c","dtype":"F16"}},2]]})",
           R"({"dict":[[1,1],[{"complex":["3ff0000000000000","0000000000000000"]},2]]})",
           R"({"dict":[[{"tuple":[1]},1],[{"tuple":[true]},2]]})",
           R"({"dict":[[{"tuple":[1]},1],[{"items":[1],"kind":"Size"},2]]})",
           R"({"dict":[[[],1]]})",
           R"({"dict":[[{"tensor":"t"},1]]})",
           R"({"dict":[[{"tuple":[[]]},1]]})",
           R"({"items":[],"kind":"dict"})",
           R"({"items":[],"kind":"list"})",
           R"({"items":[],"kind":"namedtuple"})",
           R"({"items":[],"kind":"set","maxlen":1})",
           R"({"items":[1,2],"kind":"deque","maxlen":1})",
           R"({"items":[1],"kind":"deque","maxlen":-1})",
           R"({"items":[1,1],"kind":"set"})",
           R"({"items":[2,1],"kind":"set"})",
           R"({"items":[1,true],"kind":"set"})",
           R"({"items":[[]],"kind":"set"})",
           R"({"items":["x"],"kind":"Size"})",
           R"({"items":[]})",
           R"({"kind":"set"})",
           R"({"object":"os.system"})",
           "{}",
           R"({"a":1,"b":2})",
           "[1,]",
           "",
           "\"\xed\xa0\x80\"",
           R"("\ud800")",
       })
    EXPECT_TRUE(parse_tree(text).is(Code::corrupt)) << text;
}

TEST(Tree, NamesThePlaceOfWhatIsWrong) {
  const auto node = parse_tree(R"({"dict":[["a",1],["b",[0,{"bytes":"F"}]]]})");
  EXPECT_EQ(node.error().what(), "dict[1]: list[1]: odd number of hex digits");
}

TEST(Tree, BoundsItsDepth) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_tree(nested(kTreeDepthMax)).ok());
  EXPECT_TRUE(parse_tree(nested(kTreeDepthMax + 1)).is(Code::corrupt));
  EXPECT_TRUE(parse_tree(nested(100000)).is(Code::corrupt));
  std::string dicts = "1";
  for (std::size_t i = 0; i < kTreeDepthMax; ++i)
    dicts = R"({"items":[["k",)" + dicts + R"(]],"kind":"Counter"})";
  EXPECT_TRUE(parse_tree(dicts).ok());
}

TEST(Tree, FlattensToNamesAndValues) {
  const Node root = parse_tree(R"({"dict":[["m",{"dict":[["w",{"tensor":"m.w"}],["empty",[]]]}],)"
                               R"(["l",[1,{"tuple":[2]}]],["s",{"items":[1,2],"kind":"set"}]]})")
                        .value();
  std::vector<std::string> lines;
  for (const Leaf& leaf : flatten(root))
    lines.push_back(leaf.name + "=" + leaf.value + (leaf.is_tensor ? "*" : ""));
  EXPECT_THAT(lines, testing::ElementsAre(R"(m.w={"tensor":"m.w"}*)", "m.empty=[]", "l.0=1", "l.1.0=2",
                                          R"(s={"items":[1,2],"kind":"set"})"));
  std::vector<std::string> tensors;
  each_tensor(root, [&](const TensorRef& ref) { tensors.push_back(ref.name); });
  EXPECT_THAT(tensors, testing::ElementsAre("m.w"));
}

std::vector<std::string> diff(const char* a, const char* b) {
  std::vector<std::string> lines;
  for (const StateDifference& d : diff_trees(parse_tree(a).value(), parse_tree(b).value(), "r"))
    lines.push_back(d.name + ": " + d.a.value_or("-") + " | " + d.b.value_or("-"));
  return lines;
}

TEST(Tree, FindsEveryDifference) {
  EXPECT_THAT(diff(R"({"dict":[["a",1],["b",[1,2]]]})", R"({"dict":[["a",2],["b",[1,2,3]]]})"),
              testing::ElementsAre("r.a: 1 | 2", "r.b.2: - | 3"));
  EXPECT_THAT(diff(R"({"dict":[["a",1]]})", R"({"dict":[["c",{"dict":[["d",0]]}]]})"),
              testing::ElementsAre("r.a: 1 | -", "r.c.d: - | 0"));
  EXPECT_THAT(diff("[1]", R"({"tuple":[1]})"), testing::ElementsAre("r: list | tuple"));
  EXPECT_THAT(diff("[]", R"({"tuple":[]})"), testing::ElementsAre("r: list | tuple"));
  EXPECT_THAT(diff(R"({"float":"0000000000000000"})", R"({"float":"8000000000000000"})"), testing::SizeIs(1));
  EXPECT_THAT(diff(R"({"items":[1],"kind":"deque"})", R"({"items":[1],"kind":"deque","maxlen":4})"),
              testing::ElementsAre("r: deque | deque(maxlen=4)"));
  EXPECT_THAT(diff(R"({"dict":[["a",1],["b",2]]})", R"({"dict":[["b",2],["a",1]]})"),
              testing::ElementsAre("r: keys in one order | keys in another"));
  for (const char* a : kValues)
    for (const char* b : kValues) EXPECT_EQ(diff(a, b).empty(), std::string_view(a) == b) << a << " " << b;
}

}  // namespace
}  // namespace unbroken
