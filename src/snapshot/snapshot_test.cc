#include "snapshot/snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "format/shard.h"
#include "format/verify.h"
#include "world/test_executor.h"

namespace unbroken {
namespace {

/// Tensors with memory of their own, filled with bytes that differ everywhere.
class Owned {
 public:
  TensorView& add(std::string name, DType dtype, Shape shape) {
    auto& memory = memory_.emplace_back(byte_size(dtype, shape).value());
    for (std::byte& b : memory)
      b = static_cast<std::byte>((next_ = next_ * 6364136223846793005ULL + 1) >> 56);
    Node key{name};
    roots_.items.emplace_back(std::move(key), Node{TensorRef{name, false}});
    state_.tensors.push_back(contiguous_view(std::move(name), dtype, std::move(shape), memory.data()));
    return state_.tensors.back();
  }
  StateView& state() {
    state_.tree = Node{roots_};
    return state_;
  }

 private:
  std::uint64_t next_ = 42;
  std::deque<std::vector<std::byte>> memory_;
  Dict roots_;
  StateView state_;
};

std::vector<std::byte> logical(const TensorView& view) {
  std::vector<std::byte> out(byte_size(view.dtype, view.shape).value());
  gather(view, out);
  return out;
}

/// Everything that a snapshot promises about its image.
void expect_whole(const Snapshot& snapshot, const StateView& state) {
  const Bytes image = snapshot.image.bytes();
  ASSERT_EQ(image.size(), snapshot.index.file_bytes);
  const auto head_bytes = header_size(image.first(8), image.size());
  ASSERT_TRUE(head_bytes.ok()) << head_bytes.error().what();
  const auto header = read_header(image.first(head_bytes.value()), image.size());
  ASSERT_TRUE(header.ok()) << header.error().what();
  EXPECT_EQ(header.value().data_offset, snapshot.index.data_offset);
  const auto fits = check_header(snapshot.index, image.first(head_bytes.value()));
  EXPECT_TRUE(fits.ok()) << fits.error().what();

  std::map<std::string, const TensorView*> live;
  for (const TensorView& view : state.tensors) live[view.name] = &view;
  ASSERT_EQ(snapshot.index.tensors.size(), live.size());
  std::uint64_t state_bytes = 0, at = snapshot.index.data_offset;
  for (const IndexedTensor& t : snapshot.index.tensors) {
    ASSERT_TRUE(live.contains(t.name)) << t.name;
    const std::vector<std::byte> expected = logical(*live[t.name]);
    const Bytes seen = image.subspan(t.offset, t.bytes);
    EXPECT_EQ(t.offset, at) << "a hole before " << t.name;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), seen.begin(), seen.end())) << t.name;
    EXPECT_EQ(t.digest, xxh128(expected)) << t.name;
    EXPECT_EQ(t.dtype, live[t.name]->dtype);
    EXPECT_EQ(t.shape, live[t.name]->shape);
    state_bytes += t.bytes;
    at += t.bytes;
  }
  EXPECT_EQ(at, image.size());
  EXPECT_EQ(snapshot.state_bytes, state_bytes);

  ASSERT_EQ(snapshot.chunks.size(), (image.size() + kChunkBytes - 1) / kChunkBytes);
  for (std::size_t c = 0; c < snapshot.chunks.size(); ++c) {
    const std::size_t begin = c * kChunkBytes;
    EXPECT_EQ(snapshot.chunks[c],
              xxh128(image.subspan(begin, std::min<std::size_t>(kChunkBytes, image.size() - begin))))
        << "chunk " << c;
  }
}

Snapshot taken(const StateView& state, Arena& arena) {
  SteppedExecutor executor(2);
  auto snapshot = take_snapshot(state, arena, executor);
  EXPECT_TRUE(snapshot.ok()) << snapshot.error().what();
  return std::move(snapshot).value();
}

TEST(Snapshot, IsASafetensorsFileOfEveryKindOfTensor) {
  Owned owned;
  owned.add("scalar", DType::f64, {});
  owned.add("weight", DType::f32, {33, 7});
  owned.add("empty", DType::f32, {0, 4});
  owned.add("bytes", DType::u8, {5});
  owned.add("half", DType::bf16, {3});
  owned.add("complex", DType::c128, {2});
  owned.add("packed", DType::f4, {4});
  owned.add("small", DType::uint4, {7});
  TensorView& transposed = owned.add("transposed", DType::i32, {6, 5});
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.stride_elements[0], transposed.stride_elements[1]);
  TensorView& reversed = owned.add("reversed", DType::i64, {9});
  reversed.data = static_cast<std::int64_t*>(reversed.data) + 8;
  reversed.stride_elements = {-1};
  owned.add("expanded", DType::f32, {1, 3}).stride_elements = {0, 1};
  owned.state().tensors.back().shape = {4, 3};
  const auto arena = Arena::make(1);
  expect_whole(taken(owned.state(), *arena), owned.state());
}

TEST(Snapshot, HashesEveryChunkHoweverTensorsLieOnThem) {
  // One that spans chunks, one that ends in the middle, one that fills the rest, a tail of small ones.
  for (const std::uint64_t extra : {std::uint64_t{0}, std::uint64_t{1}, kChunkBytes - 4097, kChunkBytes}) {
    Owned owned;
    owned.add("large", DType::u8, {3 * kChunkBytes + extra});
    owned.add("next", DType::u8, {kChunkBytes / 2});
    TensorView& strided = owned.add("strided", DType::u8, {1024, 2048});
    std::swap(strided.shape[0], strided.shape[1]);
    std::swap(strided.stride_elements[0], strided.stride_elements[1]);
    for (int i = 0; i < 20; ++i) owned.add("small" + std::to_string(i), DType::u8, {1000});
    const auto arena = Arena::make(1);
    expect_whole(taken(owned.state(), *arena), owned.state());
  }
}

TEST(Snapshot, OfNothingIsAHeader) {
  Owned owned;
  const auto arena = Arena::make(1);
  const Snapshot snapshot = taken(owned.state(), *arena);
  expect_whole(snapshot, owned.state());
  EXPECT_EQ(snapshot.state_bytes, 0u);
}

// failure: pytorch/pytorch#144657
TEST(Snapshot, DoesNotChangeWithTheLiveState) {
  Owned owned;
  TensorView& view = owned.add("t", DType::u8, {1000});
  const auto arena = Arena::make(1);
  const Snapshot snapshot = taken(owned.state(), *arena);
  const std::string before(as_text(snapshot.image.bytes()));
  std::fill_n(static_cast<std::byte*>(view.data), 1000, std::byte{0});
  EXPECT_EQ(as_text(snapshot.image.bytes()), before);
}

TEST(Snapshot, KeepsAliasesAndTheTree) {
  Owned owned;
  owned.add("model.weight", DType::f32, {2});
  owned.state().aliases = {{"model.tied", "model.weight"}, {"model.again", "model.weight"}};
  const auto arena = Arena::make(1);
  const Snapshot snapshot = taken(owned.state(), *arena);
  ASSERT_EQ(snapshot.index.aliases.size(), 2u);
  EXPECT_EQ(snapshot.index.aliases[0].name, "model.again") << "aliases are sorted";
  EXPECT_EQ(snapshot.index.tree, owned.state().tree);
}

// failure: NVIDIA-NeMo/Automodel#3125
TEST(Snapshot, ReusesTheMemoryOfTheArena) {
  Owned owned;
  owned.add("t", DType::u8, {3 * kChunkBytes});
  const auto arena = Arena::make(2);
  const std::byte* where = taken(owned.state(), *arena).image.bytes().data();
  const std::uint64_t held = arena->bytes();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(taken(owned.state(), *arena).image.bytes().data(), where);
  EXPECT_EQ(arena->bytes(), held);
}

TEST(Snapshot, SaysWhenEverySlotIsInUse) {
  Owned owned;
  owned.add("t", DType::u8, {10});
  SteppedExecutor executor(2);
  const auto arena = Arena::make(1);
  auto first = take_snapshot(owned.state(), *arena, executor);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(take_snapshot(owned.state(), *arena, executor).is(Code::unavailable));
  first = Error(Code::stopped, "dropped");
  EXPECT_TRUE(take_snapshot(owned.state(), *arena, executor).ok());
}

TEST(Snapshot, RefusesWhatCannotBeRead) {
  SteppedExecutor executor(2);
  const auto arena = Arena::make(1);
  const auto refused = [&](const StateView& state) {
    const auto snapshot = take_snapshot(state, *arena, executor);
    EXPECT_TRUE(arena->has_free_slot());
    return snapshot.is(Code::bad_argument);
  };
  Owned twice;
  twice.add("t", DType::u8, {10});
  twice.add("t", DType::u8, {10});
  EXPECT_TRUE(refused(twice.state())) << "a name twice";
  Owned nowhere;
  nowhere.add("t", DType::u8, {10}).data = nullptr;
  EXPECT_TRUE(refused(nowhere.state())) << "no memory";
  Owned packed;
  packed.add("t", DType::f4, {4, 4}).stride_elements = {1, 4};
  EXPECT_TRUE(refused(packed.state())) << "half bytes in another order";
}

// failure: pytorch/pytorch#163548
TEST(Snapshot, TakesAHundredThousandSmallTensors) {
  constexpr std::size_t kCount = 100'000;
  std::vector<float> memory(kCount);
  StateView state;
  for (std::size_t i = 0; i < kCount; ++i) {
    memory[i] = static_cast<float>(i);
    state.tensors.push_back(contiguous_view("t" + std::to_string(i), DType::f32, {1}, &memory[i]));
  }
  state.tree = Node{Dict{}};
  const auto arena = Arena::make(1);
  const Snapshot snapshot = taken(state, *arena);
  ASSERT_EQ(snapshot.index.tensors.size(), kCount);
  for (const std::size_t i : {std::size_t{0}, kCount / 2, kCount - 1}) {
    const IndexedTensor& t = snapshot.index.tensors[i];
    EXPECT_EQ(t.digest, xxh128(snapshot.image.bytes().subspan(t.offset, t.bytes)));
  }
  EXPECT_EQ(snapshot.state_bytes, 4 * kCount);
}

TEST(DigestViews, AreTheDigestsOfASnapshot) {
  Owned owned;
  owned.add("a", DType::u8, {2 * kChunkBytes + 3});
  TensorView& b = owned.add("b", DType::i32, {6, 5});
  std::swap(b.shape[0], b.shape[1]);
  std::swap(b.stride_elements[0], b.stride_elements[1]);
  owned.add("empty", DType::f32, {0});
  SteppedExecutor executor(2);
  const auto digests = digest_views(owned.state().tensors, executor);
  ASSERT_TRUE(digests.ok());
  const auto arena = Arena::make(1);
  const Snapshot snapshot = taken(owned.state(), *arena);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(digests.value()[i], snapshot.index.find(owned.state().tensors[i].name)->digest);
}

TEST(DigestViews, RefusesWhatCannotBeRead) {
  SteppedExecutor executor(2);
  const std::vector<TensorView> views{{"t", DType::u8, {4}, {1}, nullptr}};
  EXPECT_TRUE(digest_views(views, executor).is(Code::bad_argument));
}

}  // namespace
}  // namespace unbroken
