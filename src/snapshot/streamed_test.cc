// A snapshot of which only a window is in memory at a time.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/pages.h"
#include "format/sums.h"
#include "snapshot/staging.h"
#include "snapshot/tensor_view.h"
#include "world/test_executor.h"

namespace unbroken {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20, kBlock = 4 * kMib, kWindow = 2 * kBlock;

bool copy(const std::byte* from, MutableBytes into) {
  std::copy_n(from, into.size(), into.data());
  return true;
}

/// Of memory that starts on a page.
std::uint64_t resident_bytes(Bytes memory) {
  std::vector<unsigned char> pages((memory.size() + Pages::kBytes - 1) / Pages::kBytes);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(memory.data()), memory.size(), pages.data()), 0);
  return Pages::kBytes * static_cast<std::uint64_t>(
                             std::count_if(pages.begin(), pages.end(), [](auto p) { return (p & 1) != 0; }));
}

/// Takes blocks of an image, the last first, as soon as they are final.
class Writer {
 public:
  Writer(std::shared_ptr<Staging> staging, SteppedExecutor& executor)
      : staging_(std::move(staging)), executor_(executor), seen(staging_->image().bytes().size()) {
    for (std::uint64_t at = 0; at < seen.size(); at += kBlock) left_.push_back(at);
  }
  /// Each time that somebody waits, one block.
  void work() {
    executor_.post(Lane::io, [this] {
      resident_max = std::max(resident_max, resident_bytes(staging_->image().bytes()));
      if (write_one() && !left_.empty()) work();
    });
  }
  /// False: there is none, and nobody fills any.
  bool write_one() {
    for (auto it = left_.rbegin(); it != left_.rend(); ++it) {
      const std::uint64_t begin = *it, end = std::min<std::uint64_t>(begin + kBlock, seen.size());
      if (!staging_->is_final(begin, end)) continue;
      const Bytes block = staging_->image().bytes().subspan(begin, end - begin);
      std::copy(block.begin(), block.end(), seen.begin() + static_cast<std::ptrdiff_t>(begin));
      left_.erase(std::next(it).base());
      staging_->written(begin, end);
      return true;
    }
    return false;
  }

 private:
  std::shared_ptr<Staging> staging_;
  SteppedExecutor& executor_;
  std::vector<std::uint64_t> left_;  // blocks

 public:
  std::vector<std::byte> seen;  ///< what was written
  std::uint64_t resident_max = 0;
};

std::shared_ptr<Arena> tight() {
  return Arena::make(1, {.bytes_max = kWindow, .window_bytes_min = kWindow, .window_bytes_max = kWindow});
}

class Streamed : public testing::Test {
 protected:
  TensorView& add(std::string name, DType dtype, Shape shape) {
    auto& memory = memory_.emplace_back(byte_size(dtype, shape).value());
    for (std::byte& b : memory)
      b = static_cast<std::byte>((next_ = next_ * 6364136223846793005ULL + 1) >> 56);
    state_.tensors.push_back(contiguous_view(std::move(name), dtype, std::move(shape), memory.data()));
    return state_.tensors.back();
  }
  std::shared_ptr<Staging> begin(Arena& arena) {
    auto staging = Staging::begin(state_, arena, executor_, copy);
    EXPECT_TRUE(staging.ok()) << staging.error().what();
    return std::move(staging).value();
  }
  Snapshot whole() {
    auto arena = Arena::make(1);
    const auto staging = begin(*arena);
    staging->copy_at_once();
    return staging->finish().value();
  }
  /// Streams it, and compares it with one that has memory.
  void expect_as_a_whole_one() {
    const auto arena = tight();
    const auto staging = begin(*arena);
    ASSERT_TRUE(staging->is_streamed());
    Writer writer(staging, executor_);
    writer.work();
    staging->copy_at_once();
    EXPECT_TRUE(staging->is_copied());
    while (writer.write_one()) {
    }
    EXPECT_EQ(resident_bytes(staging->image().bytes()), 0u) << "before the hashes are asked for";
    const auto streamed = staging->finish();
    ASSERT_TRUE(streamed.ok()) << streamed.error().what();
    EXPECT_LE(writer.resident_max, kWindow + Pages::kLargeBytes);

    const Snapshot expected = whole();
    const Bytes image = expected.image.bytes();
    EXPECT_TRUE(std::equal(image.begin(), image.end(), writer.seen.begin(), writer.seen.end()));
    EXPECT_EQ(streamed.value().chunks, expected.chunks);
    EXPECT_EQ(streamed.value().state_bytes, expected.state_bytes);
    ASSERT_EQ(streamed.value().index.tensors.size(), expected.index.tensors.size());
    for (std::size_t i = 0; i < expected.index.tensors.size(); ++i)
      EXPECT_EQ(streamed.value().index.tensors[i].digest, expected.index.tensors[i].digest);
  }

  SteppedExecutor executor_{2};
  std::vector<std::vector<std::byte>> memory_;
  StateView state_{.tensors = {}, .aliases = {}, .tree = Node{Dict{}}};
  std::uint64_t next_ = 42;
};

TEST_F(Streamed, IsWhatAWholeOneIs) {
  add("large", DType::u8, {5 * kBlock + 4097});
  add("next", DType::f32, {kMib});
  for (int i = 0; i < 3000; ++i) add("small" + std::to_string(i), DType::u8, {1000});
  add("empty", DType::f32, {0});
  expect_as_a_whole_one();
}

TEST_F(Streamed, OfATensorThatIsNotContiguousIsToo) {
  TensorView& view = add("transposed", DType::u16, {4096, 3000});
  std::swap(view.shape[0], view.shape[1]);
  std::swap(view.stride_elements[0], view.stride_elements[1]);
  add("after", DType::u8, {5});
  expect_as_a_whole_one();
}

TEST_F(Streamed, WithAHeaderThatIsLongerThanTheWindowIsToo) {
  add("large", DType::u8, {kBlock});
  for (int i = 0; i < 60'000; ++i)
    state_.tensors.push_back(contiguous_view(std::string(150, 'n') + std::to_string(i), DType::u8, {3},
                                             memory_.front().data() + 3 * i));
  const auto arena = tight();
  const auto staging = begin(*arena);
  Writer writer(staging, executor_);
  writer.work();
  staging->copy_at_once();
  while (writer.write_one()) {
  }
  const Snapshot expected = whole();
  ASSERT_GT(expected.index.data_offset, kWindow);
  EXPECT_EQ(staging->finish().value().chunks, expected.chunks);
  const Bytes image = expected.image.bytes();
  EXPECT_TRUE(std::equal(image.begin(), image.end(), writer.seen.begin(), writer.seen.end()));
}

TEST_F(Streamed, IsCopiedAtOnceWhateverWasToBeLater) {
  add("large", DType::u8, {3 * kBlock});
  state_.later = {0};
  expect_as_a_whole_one();
}

TEST_F(Streamed, EndsWithWhatEndedItsWriting) {
  add("large", DType::u8, {4 * kBlock});
  const auto arena = tight();
  const auto staging = begin(*arena);
  Writer writer(staging, executor_);
  executor_.post(Lane::io, [&] { EXPECT_TRUE(writer.write_one()); });
  executor_.post(Lane::io, [&] { staging->give_up(Error(Code::no_space, "it is full")); });
  staging->copy_at_once();
  const auto snapshot = staging->finish();
  ASSERT_TRUE(snapshot.is(Code::no_space));
  EXPECT_EQ(snapshot.error().what(), "it is full");
}

TEST_F(Streamed, IsNotForWhatAnAcceleratorCopies) {
  add("large", DType::u8, {4 * kBlock});
  state_.arriving = {0};
  const auto arena = tight();
  EXPECT_TRUE(Staging::begin(state_, *arena, executor_, copy).is(Code::unavailable));
}

TEST_F(Streamed, SaysWhyAndWhatIsMissing) {
  add("large", DType::u8, {4 * kBlock});
  const auto arena = tight();
  EXPECT_EQ(begin(*arena)->streamed_because(),
            "a snapshot takes 16.0 MiB, more than arena=8.0 MiB: 8.0 MiB are missing, and it goes through a "
            "window of 8.0 MiB");
  EXPECT_EQ(begin(*Arena::make(1))->streamed_because(), "");
}

}  // namespace
}  // namespace unbroken
