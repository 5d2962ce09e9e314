#include "snapshot/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "format/sums.h"
#include "snapshot/staging.h"
#include "world/test_executor.h"

namespace unbroken {
namespace {

constexpr std::uint64_t kLarge = 5 * kChunkBytes;

std::byte byte_of(std::uint32_t tensor, std::size_t at) {
  return static_cast<std::byte>(17 * tensor + at / 7 + at / kChunkBytes);
}

/// An accelerator whose copies stand in memory only when they are waited for, and are noise before.
class Accelerator final : public Arrivals {
 public:
  std::shared_ptr<void> prepare(MutableBytes memory) override {
    prepared.push_back(memory.size());
    return {this, [this](void*) { forgotten += 1; }};
  }
  Result<> begin(std::span<const Place> places) override {
    if (is_broken_at_once) return Error(Code::unavailable, "no copy can be begun");
    places_.assign(places.begin(), places.end());
    for (const Place& place : places_) std::fill(place.into.begin(), place.into.end(), std::byte{0xAA});
    return Done{};
  }
  Result<std::size_t> wait(std::size_t count) override {
    waits += 1;
    if (count > is_broken_after) return Error(Code::unavailable, "the accelerator is lost");
    for (; arrived_ < std::min(count + ahead, places_.size()); ++arrived_) {
      const Place& place = places_[arrived_];
      for (std::size_t at = 0; at < place.into.size(); ++at) place.into[at] = byte_of(place.tensor, at);
    }
    return arrived_;
  }
  const std::vector<Place>& places() const { return places_; }

  std::vector<std::uint64_t> prepared;
  int forgotten = 0, waits = 0;
  std::size_t ahead = 0, is_broken_after = SIZE_MAX;
  bool is_broken_at_once = false;

 private:
  std::vector<Place> places_;
  std::size_t arrived_ = 0;
};

/// "host" is copied at once, "later" later; three more arrive.
class Arriving : public testing::Test {
 protected:
  Arriving() {
    for (std::size_t at = 0; at < host_.size(); ++at) host_[at] = byte_of(0, at);
    for (std::size_t at = 0; at < later_.size(); ++at) later_[at] = byte_of(1, at);
    state_.tensors = {contiguous_view("host", DType::u8, {host_.size()}, host_.data()),
                      contiguous_view("later", DType::u8, {later_.size()}, later_.data()),
                      contiguous_view("large", DType::u8, {kLarge}, nullptr),
                      contiguous_view("small", DType::u8, {100}, nullptr),
                      contiguous_view("nothing", DType::u8, {0}, nullptr)};
    state_.tensors[2].stride_elements = {3};  // on the accelerator
    state_.later = {1, 2};
    state_.arriving = {2, 3, 4};
    state_.arrivals = accelerator_;
    state_.tree = Node{Dict{}};
  }
  Result<std::shared_ptr<Staging>> begin() {
    const auto copy_shared = [](const std::byte* from, MutableBytes into) {
      std::copy_n(from, into.size(), into.data());
      return true;
    };
    return Staging::begin(state_, *arena_, executor_, copy_shared);
  }
  void expect_whole(const Snapshot& snapshot) const {
    for (std::uint32_t t = 0; t < state_.tensors.size(); ++t) {
      const IndexedTensor& found = *snapshot.index.find(state_.tensors[t].name);
      const Bytes seen = snapshot.image.bytes().subspan(found.offset, found.bytes);
      std::size_t at = 0;
      while (at < seen.size() && seen[at] == byte_of(t, at)) ++at;
      EXPECT_EQ(at, seen.size()) << found.name;
      EXPECT_EQ(found.digest, xxh128(seen)) << found.name;
    }
    for (std::size_t c = 0; c < snapshot.chunks.size(); ++c) {
      const Bytes rest = snapshot.image.bytes().subspan(c * kChunkBytes);
      EXPECT_EQ(snapshot.chunks[c], xxh128(rest.first(std::min<std::size_t>(kChunkBytes, rest.size()))));
    }
  }

  std::vector<std::byte> host_ = std::vector<std::byte>(1000), later_ = std::vector<std::byte>(2000);
  const std::shared_ptr<Accelerator> accelerator_ = std::make_shared<Accelerator>();
  StateView state_;
  SteppedExecutor executor_{2};
  std::shared_ptr<Arena> arena_ = Arena::make(1);
};

TEST_F(Arriving, IsReadWhenItIsThere) {
  const auto staging = begin().value();
  staging->copy_at_once();
  EXPECT_EQ(accelerator_->waits, 0) << "the caller waited for the accelerator";
  EXPECT_FALSE(staging->is_copied());
  EXPECT_FALSE(staging->is_at_once());
  for (const Arrivals::Place& place : accelerator_->places()) {
    const auto begin = static_cast<std::uint64_t>(place.into.data() - staging->image().bytes().data());
    EXPECT_EQ(staging->is_final(begin, begin + place.into.size()), place.into.empty());
    EXPECT_EQ(place.is_later, place.tensor == 2);
  }
  staging->copy();
  EXPECT_TRUE(staging->is_copied());
  const auto snapshot = staging->finish();
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().what();
  expect_whole(snapshot.value());
}

TEST_F(Arriving, IsNotAskedForWhatIsKnownToBeThere) {
  accelerator_->ahead = 9;
  EXPECT_TRUE(begin().value()->finish().ok());
  EXPECT_EQ(accelerator_->waits, 1);
}

TEST_F(Arriving, WhatWasWrittenMeanwhileFailsTheSave) {
  state_.written = [] { return std::vector<std::uint32_t>{2, 3}; };  // "small" was no later one
  const auto staging = begin().value();
  staging->copy_at_once();
  EXPECT_TRUE(staging->finish().is(Code::unavailable));
  EXPECT_EQ(staging->changed(), std::vector<std::string>{"large"});
}

TEST_F(Arriving, ALostAcceleratorFailsTheSaveAndNobodyWaits) {
  accelerator_->is_broken_after = 0;
  const auto staging = begin().value();
  staging->copy_at_once();
  const auto snapshot = staging->finish();
  EXPECT_TRUE(snapshot.is(Code::unavailable)) << "reported as another error";
  EXPECT_TRUE(staging->is_final(0, staging->image().bytes().size()));
}

TEST_F(Arriving, MemoryIsNotUsedAgainWhileSomethingIsOnItsWayIntoIt) {
  auto staging = begin().value();
  EXPECT_EQ(accelerator_->waits, 0);
  staging.reset();
  EXPECT_EQ(accelerator_->wait(0).value(), 3u);
  EXPECT_TRUE(arena_->has_room(1));
  accelerator_->is_broken_at_once = true;
  EXPECT_TRUE(begin().is(Code::unavailable));
  EXPECT_TRUE(arena_->has_room(1));
}

TEST_F(Arriving, MemoryIsPreparedOnceAndForgottenBeforeItGoes) {
  (void)begin().value()->finish();
  (void)begin().value()->finish();
  ASSERT_EQ(accelerator_->prepared.size(), 1u);
  EXPECT_EQ(accelerator_->prepared[0], arena_->bytes());
  EXPECT_EQ(accelerator_->forgotten, 0);
  state_.tensors[2].shape = {kLarge + (std::uint64_t{8} << 20)};
  (void)begin().value()->finish();
  EXPECT_EQ(accelerator_->forgotten, 1) << "the slot grew";
  EXPECT_EQ(accelerator_->prepared.size(), 2u);
  arena_ = nullptr;
  EXPECT_EQ(accelerator_->forgotten, 2);
}

}  // namespace
}  // namespace unbroken
