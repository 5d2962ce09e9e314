#include "snapshot/known_state.h"

#include <gtest/gtest.h>

#include <string>

namespace unbroken {
namespace {

TensorView view(std::string name) {
  return contiguous_view(std::move(name), DType::f32, {1}, nullptr);
}

KnownState known() {
  KnownState out;
  out.tensors = {view("net.a"), view("net.b")};
  out.aliases = {{"net.c", "net.a"}};
  out.parameters = {1};
  out.nodes = {parse_tree(R"({"dict":[["a",{"tensor":"net.a"}],["b",{"tensor":"net.b"}]]})").value(),
               parse_tree(R"([1,2])").value()};
  return out;
}

StateView rest(std::string_view tree) {
  StateView out;
  out.tensors = {view("state.x")};
  out.aliases = {{"state.y", "state.x"}};
  out.parameters = {2};
  out.later = {0, 2};
  out.tree = parse_tree(tree).value();
  return out;
}

std::vector<std::string> names(const StateView& state) {
  std::vector<std::string> out;
  for (const TensorView& tensor : state.tensors) out.push_back(tensor.name);
  return out;
}

constexpr std::string_view kTree =
    R"({"dict":[["net",null],["opt",{"dict":[["lr",1],["state",null]]}],["n",null]]})";

TEST(KnownState, StandsBeforeTheRestAndInItsPlaces) {
  StateView state = rest(kTree);
  const std::vector<KnownPlace> places{{0, {0}}, {1, {1, 1}}};
  ASSERT_TRUE(put_known(state, known(), places).ok());
  EXPECT_EQ(names(state), (std::vector<std::string>{"net.a", "net.b", "state.x"}));
  ASSERT_EQ(state.aliases.size(), 2U);
  EXPECT_EQ(state.aliases[0].name, "net.c");
  EXPECT_EQ(state.parameters, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(state.later, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(tree_text(state.tree),
            R"({"dict":[["net",{"dict":[["a",{"tensor":"net.a"}],["b",{"tensor":"net.b"}]]}],)"
            R"(["opt",{"dict":[["lr",1],["state",[1,2]]]}],["n",null]]})");
}

TEST(KnownState, IsCopiedSoThatItCanBeUsedAgain) {
  const KnownState all = known();
  const std::vector<KnownPlace> places{{0, {0}}, {0, {2}}};
  for (int i = 0; i < 2; ++i) {
    StateView state = rest(kTree);
    ASSERT_TRUE(put_known(state, all, places).ok());
    const auto& roots = std::get<Dict>(state.tree.value).items;
    EXPECT_EQ(roots[0].value, all.nodes[0]);
    EXPECT_EQ(roots[2].value, all.nodes[0]);
  }
}

TEST(KnownState, RefusesAPlaceThatIsNotThereOrNotEmpty) {
  const KnownPlace refused[] = {{2, {0}}, {0, {3}}, {0, {1}}, {0, {1, 0}}, {0, {1, 2}}, {0, {0, 0}}, {0, {}}};
  for (const KnownPlace& place : refused) {
    StateView state = rest(kTree);
    EXPECT_TRUE(put_known(state, known(), {&place, 1}).is(Code::bad_argument));
    EXPECT_EQ(state.tensors.size(), 1U) << "it took a part of it";
  }
}

}  // namespace
}  // namespace unbroken
