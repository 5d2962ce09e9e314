#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "exchange/crc32.h"
#include "exchange/foreign_files.h"
#include "exchange/pickle/pickle_calls.h"
#include "exchange/pickle/unpickle.h"
#include "exchange/strided.h"

namespace unbroken {

namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> hostile(const std::string& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(fs::path(UNBROKEN_SOURCE_DIR) / "tests/hostile" / folder))
    out.push_back(entry.path());
  return out;
}

Result<ImportPlan> read(std::string_view bytes) {
  const MemorySource source(as_bytes(bytes));
  UNBROKEN_TRY(const ForeignKind kind, foreign_kind(source));
  UNBROKEN_TRY(ImportPlan plan, kind == ForeignKind::torch_zip      ? read_torch_zip(source)
                                : kind == ForeignKind::torch_legacy ? read_torch_legacy(source)
                                                                    : read_safetensors(source));
  const std::vector<std::uint64_t> sizes{bytes.size()};
  UNBROKEN_DO(check_plan(plan, sizes));
  for (const ChecksummedRange& range : plan.checks) {
    Crc32 crc;
    crc.update(as_bytes(bytes.substr(range.offset, range.bytes)));
    if (crc.value() != range.crc32) return Error(Code::corrupt, "checksum");
  }
  return plan;
}

Result<ImportPlan> read_pickle(std::string_view bytes) {
  PickleHeap heap;
  std::string_view rest = bytes;
  UNBROKEN_TRY(const Ref root, unpickle(rest, PickleDialect::torch_file, heap));
  ImportPlan plan;
  StateTaker taker(
      heap, [](const PickleValue&) -> Result<StoragePlace> { return StoragePlace{}; }, Naming::plain, plan);
  UNBROKEN_TRY(plan.tree, taker.take_file(root));
  if (!plan.refused.empty()) return Error(Code::corrupt, plan.refused.front().what);
  UNBROKEN_DO(check_tree(plan.tree));
  return plan;
}

TEST(Foreign, RefusesEveryHostileFile) {
  for (const fs::path& path : hostile("torch_zip")) {
    const auto plan = read(content_of(path));
    EXPECT_EQ(plan.ok(), path.filename().string().starts_with("ok-")) << path;
    EXPECT_TRUE(plan.ok() || plan.is(Code::corrupt)) << path << plan.error().what();
  }
}

TEST(Unpickle, RefusesEveryHostilePickle) {
  for (const fs::path& path : hostile("pickle")) {
    const auto plan = read_pickle(content_of(path));
    EXPECT_EQ(plan.ok(), path.filename().string().starts_with("ok-")) << path;
    EXPECT_TRUE(plan.ok() || plan.is(Code::corrupt)) << path;
  }
}

TEST(Foreign, RefusesAFileCutAnywhere) {
  for (const fs::path& path : hostile("torch_zip")) {
    if (!path.filename().string().starts_with("ok-")) continue;
    const std::string whole = content_of(path);
    for (std::size_t length = 0; length < whole.size(); ++length)
      EXPECT_FALSE(read(std::string_view(whole).substr(0, length)).ok()) << path << length;
  }
}

/// A flipped bit is refused, or it is where nothing is said: never another tree or other sizes by accident
/// that reach outside of the file.
TEST(Foreign, SurvivesEveryFlippedBit) {
  for (const fs::path& path : hostile("torch_zip")) {
    if (!path.filename().string().starts_with("ok-")) continue;
    const std::string whole = content_of(path);
    for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string bent = whole;
      bent[bit / 8] = static_cast<char>(bent[bit / 8] ^ (1 << bit % 8));
      const auto plan = read(bent);
      EXPECT_TRUE(plan.ok() || plan.is(Code::corrupt)) << path << bit;
    }
  }
}

TEST(Globals, NameWhatIsNotOnTheList) {
  const auto refused = find_global(PickleDialect::torch_file, "os\x1b[2J", "system");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().what().find("os\\x1b[2J.system"), std::string::npos);
  EXPECT_FALSE(find_global(PickleDialect::torch_file, "builtins", "eval").ok());
  // Each list is its own: a file of torch.save holds no metadata, and .metadata no tensors.
  constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata";
  EXPECT_FALSE(find_global(PickleDialect::torch_file, kMetadata, "Metadata").ok());
  EXPECT_TRUE(find_global(PickleDialect::dcp_metadata, kMetadata, "Metadata").ok());
  EXPECT_FALSE(find_global(PickleDialect::dcp_metadata, "torch._utils", "_rebuild_tensor_v2").ok());
}

TEST(Strided, StaysWithinItsStorage) {
  const Shape shape{2, 3};
  EXPECT_TRUE(check_strided(shape, Shape{3, 1}, 0, 6).ok());
  EXPECT_TRUE(check_strided(shape, Shape{1, 2}, 0, 6).ok());
  EXPECT_TRUE(check_strided(shape, Shape{4, 1}, 1, 8).ok());
  EXPECT_FALSE(check_strided(shape, Shape{3, 1}, 1, 6).ok());
  EXPECT_TRUE(check_strided(shape, Shape{0, 1}, 0, 3).ok());
  EXPECT_FALSE(check_strided(shape, Shape{0, 1}, 1, 3).ok());
  EXPECT_FALSE(check_strided(shape, Shape{2, 2}, 0, 6).ok());
  EXPECT_FALSE(check_strided(shape, Shape{UINT64_MAX / 2, 1}, 0, UINT64_MAX).ok());
  EXPECT_TRUE(check_strided(Shape{0, 3}, Shape{0, 0}, 0, 0).ok());
  EXPECT_TRUE(check_strided(Shape{1, 1}, Shape{0, 0}, 5, 6).ok());
}

TEST(Crc32, AgreesWithItsCheckValue) {
  Crc32 crc;
  crc.update(as_bytes("123"));
  crc.update(as_bytes("456789"));
  EXPECT_EQ(crc.value(), 0xcbf43926U);
  std::mt19937 chance(1);
  std::string text(1000, '\0');
  for (char& c : text) c = static_cast<char>(chance());
  Crc32 whole, pieces;
  whole.update(as_bytes(text));
  for (std::size_t at = 0; at < text.size(); at += 7)
    pieces.update(as_bytes(std::string_view(text).substr(at, 7)));
  EXPECT_EQ(whole.value(), pieces.value());
}

TEST(Plan, SurvivesTheWayOutOfTheSandbox) {
  for (const fs::path& path : hostile("torch_zip")) {
    const auto plan = read(content_of(path));
    if (!plan.ok()) continue;
    const ImportPlan again = decode_plan(encode_plan(plan.value()).value()).value();
    EXPECT_EQ(again.tree, plan.value().tree);
    EXPECT_EQ(again.inline_bytes, plan.value().inline_bytes);
    ASSERT_EQ(again.tensors.size(), plan.value().tensors.size());
    EXPECT_EQ(again.tensors.front().name, plan.value().tensors.front().name);
    EXPECT_EQ(again.tensors.front().pieces.front().strides,
              plan.value().tensors.front().pieces.front().strides);
  }
}

/// {"a": {"x": foreign, "y": 1}}: what is refused is named with its entry, and nothing is without it.
TEST(Plan, NamesWhatNoRunCanHold) {
  const std::string pickle =
      "\x80\x02}U\x01"
      "a}(U\x01xcos\nsystem\n)RU\x01yK\x01us.";
  const auto take = [&pickle](const std::vector<std::string>& without) {
    PickleHeap heap;
    std::string_view rest = pickle;
    const Ref root = unpickle(rest, PickleDialect::torch_file, heap).value();
    ImportPlan plan;
    const FindStorage find = [](const PickleValue&) -> Result<StoragePlace> { return StoragePlace{}; };
    plan.tree = StateTaker(heap, find, Naming::plain, plan, without).take_file(root).value();
    return decode_plan(encode_plan(plan).value()).value();
  };
  const ImportPlan whole = take({});
  ASSERT_EQ(whole.refused.size(), 1U);
  EXPECT_EQ(whole.refused.front().name, "a.x");
  EXPECT_EQ(whole.refused.front().entry, "a.x");
  EXPECT_EQ(whole.refused.front().what, "os.system");
  EXPECT_TRUE(check_plan(whole, {}).is(Code::corrupt));
  const ImportPlan part = take({"a.?"});
  EXPECT_EQ(part.left_out, (std::vector<std::string>{"a.x", "a.y"}));
  EXPECT_TRUE(check_plan(part, {}).ok());
  EXPECT_EQ(tree_text(take({"a.x"}).tree), R"({"dict":[["a",{"dict":[["y",1]]}]]})");
}

TEST(Plan, TilesEveryTensor) {
  ImportPlan plan;
  plan.tree = Node{Dict{}};
  const auto piece = [](std::uint64_t begin, std::uint64_t end) {
    return ImportedPiece{.file = 0, .offset = 0, .strides = {1}, .box = {{begin}, {end}}};
  };
  plan.tensors.push_back({"w", DType::u8, {4}, {piece(0, 2), piece(2, 4)}});
  const std::vector<std::uint64_t> sizes{4};
  EXPECT_TRUE(check_plan(plan, sizes).ok());
  plan.tensors.front().pieces = {piece(0, 2), piece(1, 3)};
  EXPECT_FALSE(check_plan(plan, sizes).ok());
  plan.tensors.front().pieces = {piece(0, 2)};
  EXPECT_FALSE(check_plan(plan, sizes).ok());
  plan.tensors.front().pieces = {piece(0, 2), piece(2, 5)};
  EXPECT_FALSE(check_plan(plan, sizes).ok());
  plan.tensors.front().pieces = {piece(0, 4)};
  plan.tensors.front().pieces.front().file = 1;
  EXPECT_FALSE(check_plan(plan, sizes).ok());
}

}  // namespace

}  // namespace unbroken
