#include "snapshot/arena.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

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

constexpr std::uint64_t kPiece = Pages::kLargeBytes;  // that is touched at a time

/// Of whole pages, those that are in memory.
std::uint64_t resident_bytes(const MutableBytes& pages) {
  std::vector<unsigned char> is_resident(pages.size() / Pages::kBytes);
  EXPECT_EQ(::mincore(pages.data(), is_resident.size() * Pages::kBytes, is_resident.data()), 0);
  std::uint64_t out = 0;
  for (const unsigned char byte : is_resident) out += (byte & 1) * Pages::kBytes;
  return out;
}

TEST(ArenaReserved, IsTouchedPieceByPieceAndTakenByTheFirstSnapshot) {
  const auto arena = Arena::make(2);
  ASSERT_TRUE(arena->reserve(3 * kPiece, 0));
  EXPECT_EQ(arena->bytes(), 0u) << "nothing is in memory yet";
  EXPECT_TRUE(arena->touch_some());
  EXPECT_EQ(arena->bytes(), kPiece);
  EXPECT_TRUE(arena->touch_some());
  EXPECT_FALSE(arena->touch_some()) << "that was all";
  EXPECT_FALSE(arena->touch_some());
  EXPECT_EQ(arena->bytes(), 3 * kPiece);
  const auto slot = arena->acquire(3 * kPiece).value();
  EXPECT_EQ(resident_bytes(*slot), 3 * kPiece);
  EXPECT_EQ(arena->bytes(), 3 * kPiece);
}

TEST(ArenaReserved, IsLeftToASnapshotThatComesInTheMiddle) {
  const auto arena = Arena::make(2);
  ASSERT_TRUE(arena->reserve(3 * kPiece, 0));
  ASSERT_TRUE(arena->touch_some());
  auto slot = arena->acquire(3 * kPiece).value();
  EXPECT_EQ(resident_bytes(*slot), kPiece);
  EXPECT_EQ(arena->bytes(), 3 * kPiece) << "it may touch all of it";
  EXPECT_FALSE(arena->touch_some());
  EXPECT_EQ(resident_bytes(*slot), kPiece);
  slot.reset();
  EXPECT_FALSE(arena->touch_some()) << "once used it is a slot as all others";
}

TEST(ArenaReserved, MakesPlaceForASnapshotThatIsLarger) {
  const auto arena = Arena::make(2);
  ASSERT_TRUE(arena->reserve(2 * kPiece, 0));
  ASSERT_TRUE(arena->touch_some());
  const auto slot = arena->acquire(4 * kPiece).value();
  EXPECT_EQ(arena->bytes(), 4 * kPiece) << "it stands side by side with what is not in use";
  EXPECT_FALSE(arena->touch_some());
}

TEST(ArenaReserved, IsWhatIsMissingToASnapshotUntilItIsTouched) {
  std::uint64_t left = 8 * kPiece;
  const auto arena =
      Arena::make(2, {.left = [&] { return left; }, .window_bytes_min = kPiece, .window_bytes_max = kPiece});
  ASSERT_TRUE(arena->reserve(4 * kPiece, 0));
  ASSERT_TRUE(arena->touch_some());
  left = 2 * kPiece;
  EXPECT_TRUE(arena->acquire(4 * kPiece).is(Code::unavailable)) << "addresses are no memory";
  const auto windowed = arena->acquire_windowed(4 * kPiece).value();
  EXPECT_EQ(windowed.missing_bytes, kPiece);
  EXPECT_EQ(arena->bytes(), kPiece) << "of the window alone";
  EXPECT_EQ(resident_bytes(*windowed.memory), 0u) << "nobody has touched it";
  EXPECT_FALSE(arena->touch_some()) << "no more than the window may be";
}

TEST(ArenaReserved, IsOnlyWhereAsMuchAgainStays) {
  std::uint64_t left = 5 * kPiece;
  const ArenaLimits limits{.left = [&] { return left; }};
  EXPECT_FALSE(Arena::make(2, limits)->reserve(3 * kPiece, 0));
  EXPECT_FALSE(Arena::make(2, limits)->reserve(2 * kPiece, kPiece + 1)) << "the caller needs some too";
  EXPECT_FALSE(Arena::make(2, {.bytes_max = kPiece})->reserve(2 * kPiece, 0)) << "more than it may";
  EXPECT_FALSE(Arena::make(2)->reserve(std::uint64_t{1} << 60, 0)) << "more than there are addresses";
  const auto arena = Arena::make(2, limits);
  ASSERT_TRUE(arena->reserve(2 * kPiece, kPiece));
  ASSERT_TRUE(arena->touch_some());
  left = 3 * kPiece - 1;  // others took some meanwhile
  EXPECT_FALSE(arena->touch_some());
  EXPECT_EQ(arena->bytes(), kPiece);
  left = 3 * kPiece;
  EXPECT_FALSE(arena->touch_some()) << "that was the last piece";
  EXPECT_EQ(arena->bytes(), 2 * kPiece);
}

TEST(ArenaReserved, IsBeforeTheFirstSnapshotOnly) {
  const auto arena = Arena::make(2);
  (void)arena->acquire(kPiece).value();
  EXPECT_FALSE(arena->reserve(2 * kPiece, 0));
  const auto twice = Arena::make(2);
  ASSERT_TRUE(twice->reserve(kPiece, 0));
  EXPECT_FALSE(twice->reserve(kPiece, 0));
}

TEST(ArenaReserved, CanBeTouchedWhileSnapshotsComeAndGo) {
  for (int round = 0; round < 20; ++round) {
    const auto arena = Arena::make(2);
    ASSERT_TRUE(arena->reserve(8 * kPiece, 0));
    const std::jthread toucher([&] {
      while (arena->touch_some()) {
      }
    });
    for (const std::uint64_t pieces : {8 + round % 2, 8, 10}) {  // the first is too large each other time
      const std::uint64_t size = static_cast<std::uint64_t>(pieces) * kPiece;
      const auto slot = arena->acquire(size).value();
      std::memset(slot->data(), 7, size);
      for (std::uint64_t at = 0; at < size; at += Pages::kBytes) ASSERT_EQ((*slot)[at], std::byte{7});
    }
  }
}

TEST(Arena, SaysWhereMemoryIsToBeLookedAt) {
  const auto arena = Arena::make(1, {.left = [] { return std::uint64_t{10}; }});
  EXPECT_EQ(arena->acquire(20).error().next_command(), "free -h; cat /proc/self/cgroup");
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
