#include "snapshot/arena.h"

#include <gtest/gtest.h>

#include <cstring>

namespace unbroken {
namespace {

TEST(Arena, GivesAlignedMemoryOfTheSizeAskedFor) {
  const auto arena = Arena::make(1);
  const auto slot = arena->acquire(5000);
  ASSERT_TRUE(slot.ok());
  EXPECT_EQ(slot.value()->size(), 5000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot.value()->data()) % Pages::kBytes, 0u);
  std::memset(slot.value()->data(), 1, slot.value()->size());
}

// failure: intelligent-machine-learning/dlrover#1069
TEST(Arena, GivesNothingWhileEverySlotIsInUse) {
  const auto arena = Arena::make(2);
  auto first = arena->acquire(10).value();
  auto second = arena->acquire(10).value();
  EXPECT_NE(first->data(), second->data());
  EXPECT_FALSE(arena->has_room(10));
  EXPECT_EQ(arena->acquire(10).value(), nullptr);
  first.reset();
  EXPECT_TRUE(arena->has_room(10));
  EXPECT_NE(arena->acquire(10).value(), nullptr);
}

// failure: pytorch/pytorch#170163
TEST(Arena, KeepsItsMemoryAndReusesIt) {
  const auto arena = Arena::make(2);
  const std::byte* where = arena->acquire(100'000).value()->data();
  const std::uint64_t held = arena->bytes();
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(arena->acquire(100'000 - 100 * static_cast<std::uint64_t>(i)).value()->data(), where);
    EXPECT_EQ(arena->bytes(), held);
  }
}

TEST(Arena, ReusesTheSlotThatIsLargeEnough) {
  const auto arena = Arena::make(2);
  auto small = arena->acquire(4096).value();
  auto large = arena->acquire(1 << 20).value();
  const std::byte* where = large->data();
  const std::uint64_t held = arena->bytes();
  small.reset();
  large.reset();
  EXPECT_EQ(arena->acquire(1 << 20).value()->data(), where) << "the other slot grew needlessly";
  EXPECT_EQ(arena->bytes(), held);
}

TEST(Arena, GrowsInPlaceOfTheOldMemory) {
  const auto arena = Arena::make(1);
  (void)arena->acquire(4096).value();
  (void)arena->acquire(3 * 4096).value();
  EXPECT_EQ(arena->bytes(), 3u * 4096u);
}

TEST(Arena, SaysThatThereIsNoMemory) {
  const auto arena = Arena::make(1);
  EXPECT_TRUE(arena->acquire(std::uint64_t{1} << 60).is(Code::unavailable));
  EXPECT_TRUE(arena->acquire(~std::uint64_t{0}).is(Code::unavailable)) << "rounding up must not wrap around";
  EXPECT_TRUE(arena->has_room(10)) << "the slot is lost";
  EXPECT_NE(arena->acquire(10).value(), nullptr);
}

TEST(Arena, TakesNoMoreThanItMay) {
  const auto arena = Arena::make(2, {.bytes_max = 100'000});
  auto slot = arena->acquire(60'000).value();
  EXPECT_FALSE(arena->has_room(60'000)) << "beside the one in use";
  EXPECT_EQ(arena->acquire(60'000).value(), nullptr);
  slot.reset();
  EXPECT_TRUE(arena->has_room(60'000));
  slot = arena->acquire(90'000).value();
  ASSERT_NE(slot, nullptr) << "what was held for less is given back first";
  EXPECT_LE(arena->bytes(), 100'000u);
  slot.reset();
  EXPECT_TRUE(arena->has_room(200'000)) << "so that acquire() is asked, and says why not";
  const auto refused = arena->acquire(200'000);
  ASSERT_TRUE(refused.is(Code::unavailable));
  EXPECT_EQ(refused.error().what(), "a snapshot takes 195.3 KiB, more than arena=97.7 KiB");
}

TEST(Arena, TakesNoMoreThanThereIs) {
  std::uint64_t left = 100'000;
  const auto arena = Arena::make(2, {.left = [&] { return left; }});
  auto slot = arena->acquire(80'000).value();
  left = 20'000;
  EXPECT_FALSE(arena->has_room(80'000));
  EXPECT_EQ(arena->acquire(80'000).value(), nullptr);
  slot.reset();
  EXPECT_NE(arena->acquire(95'000).value(), nullptr) << "what it holds counts as left";
  EXPECT_TRUE(arena->acquire(200'000).is(Code::unavailable));
}

TEST(Arena, GivesAWindowForWhatIsMoreThanThereMayBe) {
  const auto arena =
      Arena::make(2, {.bytes_max = 100'000, .window_bytes_min = 20'000, .window_bytes_max = 50'000});
  (void)arena->acquire(90'000).value();
  auto windowed = arena->acquire_windowed(300'000).value();
  ASSERT_EQ(windowed.memory->size(), 300'000u);
  EXPECT_EQ(windowed.window_bytes, 50'000u);
  EXPECT_EQ(windowed.missing_bytes, 200'000u);
  EXPECT_EQ(arena->bytes(), 50'000u) << "what was idle is given back first, and only the window is held";
  EXPECT_TRUE(arena->has_room(40'000));
  EXPECT_FALSE(arena->has_room(60'000));
  std::memset(windowed.memory->data() + 250'000, 1, 50'000);
  windowed.memory.reset();
  EXPECT_EQ(arena->bytes(), 0u);
  EXPECT_NE(arena->acquire(90'000).value(), nullptr) << "the slot is lost";
}

TEST(Arena, GivesNoWindowThatIsTooSmall) {
  std::uint64_t left = 19'999;
  const auto arena =
      Arena::make(1, {.left = [&] { return left; }, .window_bytes_min = 20'000, .window_bytes_max = 50'000});
  EXPECT_TRUE(arena->acquire_windowed(300'000).is(Code::unavailable));
  left = 20'000;
  const auto windowed = arena->acquire_windowed(300'000);
  ASSERT_TRUE(windowed.ok());
  EXPECT_EQ(windowed.value().window_bytes, 20'000u) << "no more than is left";
  EXPECT_TRUE(arena->acquire_windowed(300'000).is(Code::unavailable)) << "every slot is in use";
  EXPECT_TRUE(Arena::make(1)->acquire_windowed(10).is(Code::unavailable)) << "nobody asked for windows";
}

TEST(Arena, LivesAsLongAsItsLastSlot) {
  auto arena = Arena::make(1);
  auto slot = arena->acquire(64).value();
  arena.reset();
  std::memset(slot->data(), 7, slot->size());
  EXPECT_EQ((*slot)[63], std::byte{7});
}

}  // namespace
}  // namespace unbroken
