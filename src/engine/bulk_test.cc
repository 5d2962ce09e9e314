#include "engine/bulk.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "engine/test_run.h"
#include "engine/write/write_object.h"
#include "format/sample.h"
#include "world/parallel.h"

namespace unbroken {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(HashObject, HashesChunks) {
  const std::string content = bytes_of(2 * kBlockBytes + 4097);
  for (const std::uint64_t chunk_bytes :
       {std::uint64_t{4096}, kChunkBytes, 2 * kBlockBytes, 100 * kBlockBytes}) {
    TestRun run;
    run.world.disk().plant("data/x", content);
    run.live([&](TestLife& me) {
      const auto hash = hash_object(me.seams, {"data/x", chunk_bytes, content.size(), 4000}, me.by());
      ASSERT_TRUE(hash.ok());
      EXPECT_EQ(hash.value().bytes, content.size());
      ASSERT_EQ(hash.value().chunks.size(), (content.size() + chunk_bytes - 1) / chunk_bytes);
      for (std::size_t c = 0; c < hash.value().chunks.size(); ++c)
        ASSERT_EQ(hash.value().chunks[c],
                  xxh128(as_bytes(std::string_view(content).substr(c * chunk_bytes, chunk_bytes))));
      EXPECT_EQ(hash.value().head, content.substr(0, 4000));
      EXPECT_TRUE(hash_object(me.seams, {"data/y", chunk_bytes, 1, 0}, me.by()).is(Code::not_found));
    });
  }
}

TEST(HashObject, DoesNotReadOneOfAnotherLength) {
  TestRun run;
  run.world.disk().plant("data/x", bytes_of(5000));
  run.live([&](TestLife& me) {
    run.world.faults().plan({.kind = FaultKind::eio, .op = SimOp::read, .nth = 1});
    const auto hash = hash_object(me.seams, {"data/x", 4096, 5001, 4096}, me.by());
    ASSERT_TRUE(hash.ok()) << hash.error().what();
    EXPECT_EQ(hash.value().bytes, 5000u);
    EXPECT_THAT(hash.value().chunks, IsEmpty());
  });
}

/// The world's clock, moved on by each look at it.
class HastyClock final : public Clock {
 public:
  explicit HastyClock(const Clock& real) : real_(real) {}
  Instant now() const override { return real_.now() + std::chrono::seconds(looks_++); }
  std::int64_t wall_unix_ms() const override { return real_.wall_unix_ms(); }

 private:
  const Clock& real_;
  mutable int looks_ = 0;
};

TEST(Bulk, LooksAtTheDeadlineBeforeEveryPiece) {
  TestRun run;
  run.world.disk().plant("data/x", bytes_of(5 * kReadBytes));
  run.live([&](TestLife& me) {
    HastyClock clock(me.seams.clock);
    const Seams seams{clock, me.seams.random, me.seams.executor, me.seams.store, me.seams.process};
    // The store has a clock of its own, for which it is early.
    const Deadline by{me.seams.clock.now() + std::chrono::seconds(3), {}};
    const auto hash = hash_object(seams, {"data/x", 4096, 5 * kReadBytes, 0}, by);
    ASSERT_TRUE(hash.is(Code::late));
    EXPECT_THAT(hash.error().what(), HasSubstr("data/x"));
    const std::string piece = bytes_of(16);
    const std::vector<BufferRef> parts(100, BufferRef::of(piece));
    EXPECT_TRUE(write_object(seams, "data/y", parts, by).is(Code::late));
    EXPECT_FALSE(run.world.disk().exists("data/y"));
  });
}

/// A shard on the disk and room for its tensors.
class Shard {
 public:
  explicit Shard(std::uint64_t chunk_bytes = 4096) : sample_(sample_save({1, 1, 0}, chunk_bytes)) {
    run.world.disk().plant(kKey, sample_.shard);
    for (const IndexedTensor& t : index().tensors) room_.emplace(t.name, std::string(t.bytes, '?'));
  }
  TestRun run;
  static constexpr const char* kKey = "data/shard";
  std::vector<Damage> damage;
  const Index& index() const { return sample_.decoded; }
  std::vector<TensorTarget> targets() {
    std::vector<TensorTarget> out;
    for (auto& [name, bytes] : room_) out.push_back({name, std::as_writable_bytes(std::span(bytes))});
    return out;
  }
  Result<> load(std::vector<TensorTarget> targets) {
    const auto chunks = decode_sums(sample_.sums, sample_.sums.size() / Xxh128::kBytes).value();
    Result<> out = Done{};
    run.live(
        [&](TestLife& me) { out = load_shard(me.seams, kKey, index(), chunks, targets, damage, me.by()); });
    return out;
  }
  /// The bytes that are in the targets, by their place in the file.
  std::map<std::uint64_t, char> put() {
    std::map<std::uint64_t, char> out;
    for (const IndexedTensor& t : index().tensors)
      for (std::uint64_t i = 0; i < t.bytes; ++i)
        if (room_.at(t.name)[i] != '?') out.emplace(t.offset + i, room_.at(t.name)[i]);
    return out;
  }
  void expect_loaded() {
    for (const IndexedTensor& t : index().tensors)
      EXPECT_TRUE(room_.at(t.name) == sample_.shard.substr(t.offset, t.bytes)) << t.name;
  }

 private:
  SampleSave sample_;
  std::map<std::string, std::string> room_;
};

TEST(LoadShard, PutsEveryTensorInItsPlace) {
  for (const std::uint64_t chunk_bytes : {std::uint64_t{4096}, std::uint64_t{8192}, kChunkBytes}) {
    Shard shard(chunk_bytes);
    const auto loaded = shard.load(shard.targets());
    ASSERT_TRUE(loaded.ok()) << loaded.error().what();
    EXPECT_THAT(shard.damage, IsEmpty());
    shard.expect_loaded();
  }
}

TEST(LoadShard, VerifiesWhatNobodyWants) {
  Shard shard;
  EXPECT_TRUE(shard.load({}).ok());
  ASSERT_TRUE(shard.run.world.disk().flip_bit(Shard::kKey, shard.index().tensors.front().offset));
  EXPECT_TRUE(shard.load({}).is(Code::corrupt));
  ASSERT_EQ(shard.damage.size(), 1u);
  EXPECT_THAT(shard.damage[0].what, HasSubstr(shard.index().tensors.front().name));
}

TEST(LoadShard, PutsNoByteOfADamagedChunkAnywhere) {
  Shard shard;
  const std::uint64_t damaged = shard.index().tensors.front().offset / 4096 * 4096;
  ASSERT_TRUE(shard.run.world.disk().flip_bit(Shard::kKey, damaged));
  EXPECT_TRUE(shard.load(shard.targets()).is(Code::corrupt));
  for (const auto& [at, byte] : shard.put())
    EXPECT_TRUE(at < damaged || at >= damaged + 4096) << "byte " << at << " is " << byte;
}

TEST(LoadShard, NamesDamageOfTheHeader) {
  Shard shard;
  ASSERT_TRUE(shard.run.world.disk().flip_bit(Shard::kKey, 20));
  EXPECT_TRUE(shard.load(shard.targets()).is(Code::corrupt));
  ASSERT_FALSE(shard.damage.empty());
  EXPECT_EQ(shard.damage[0].offset, 0u);
}

TEST(LoadShard, NamesAShardThatIsMissingOrOfAnotherLength) {
  Shard gone;
  ASSERT_TRUE(gone.run.world.disk().destroy(Shard::kKey));
  EXPECT_TRUE(gone.load(gone.targets()).is(Code::corrupt));
  ASSERT_EQ(gone.damage.size(), 1u);
  EXPECT_EQ(gone.damage[0].what, "missing");
  Shard cut;
  ASSERT_TRUE(cut.run.world.disk().cut(Shard::kKey, 6000));
  EXPECT_TRUE(cut.load(cut.targets()).is(Code::corrupt));
  EXPECT_FALSE(cut.damage.empty());
}

TEST(LoadShard, NamesAShardThatIsCutWhileItIsRead) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Shard shard;
    bool is_cut = false;
    shard.run.world.after_every_event([&] {
      // As soon as its size was asked for.
      if (!is_cut && shard.run.world.event_count() > 1)
        is_cut = shard.run.world.disk().cut(Shard::kKey, 6000);
    });
    EXPECT_TRUE(shard.load(shard.targets()).is(Code::corrupt));
    EXPECT_TRUE(is_cut);
    EXPECT_FALSE(shard.damage.empty()) << "whoever asks what is damaged finds nothing";
  }
}

TEST(LoadShard, RefusesTargetsThatDoNotFit) {
  Shard shard;
  std::string room(3, ' ');
  EXPECT_TRUE(shard.load({{"model.weight", std::as_writable_bytes(std::span(room))}}).is(Code::bad_argument));
  EXPECT_TRUE(shard.load({{"nobody", std::as_writable_bytes(std::span(room))}}).is(Code::bad_argument));
}

TEST(LoadShard, TakesWhatCannotBeReadForNoDamage) {
  Shard shard;
  shard.run.world.faults().plan({.kind = FaultKind::eio, .op = SimOp::read, .path = Shard::kKey});
  EXPECT_TRUE(shard.load(shard.targets()).is(Code::unavailable));
  EXPECT_THAT(shard.damage, IsEmpty());
}

TEST(ParallelFor, SharesWorkAmongTheWorkersOfAProcess) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TestRun run(seed);
    run.live([&](TestLife& me) {
      std::vector<int> calls(40);
      EXPECT_TRUE(parallel_for(me.executor, Lane::io, calls.size(), [&](std::size_t i) -> Result<> {
                    UNBROKEN_POINT("test.body");
                    ++calls[i];
                    return Done{};
                  }).ok());
      EXPECT_EQ(calls, std::vector<int>(40, 1));
      me.executor.is_refusing = true;
      EXPECT_TRUE(parallel_for(me.executor, Lane::io, calls.size(), [&](std::size_t i) -> Result<> {
                    ++calls[i];
                    return Done{};
                  }).ok());
      EXPECT_EQ(calls, std::vector<int>(40, 2));
    });
  }
}

/// One object of zeros, but for one run of bytes; nothing of it is kept.
class SparseStore final : public Store {
 public:
  SparseStore(std::uint64_t bytes, std::uint64_t at, std::string run)
      : bytes_(bytes), at_(at), run_(std::move(run)) {}
  void read(std::uint64_t offset, MutableBytes into) const {
    std::fill(into.begin(), into.end(), std::byte{0});
    const std::uint64_t first = std::max(at_, offset);
    const std::uint64_t last = std::min(at_ + run_.size(), offset + into.size());
    for (std::uint64_t i = first; i < last; ++i) into[i - offset] = static_cast<std::byte>(run_[i - at_]);
  }
  Result<std::unique_ptr<ObjectReader>> open_reader(std::string_view, const Deadline&) const override {
    class Reader final : public ObjectReader {
     public:
      explicit Reader(const SparseStore& store) : store_(store) {}
      std::uint64_t bytes() const override { return store_.bytes_; }
      Result<> read(std::uint64_t offset, MutableBytes into) const override {
        store_.read(offset, into);
        return Done{};
      }

     private:
      const SparseStore& store_;
    };
    return std::unique_ptr<ObjectReader>(std::make_unique<Reader>(*this));
  }
  Capabilities capabilities() const override { return {}; }
  StoreIdentity identity() const override { return {}; }
  Result<Created> create(std::string_view, Bytes, const Deadline&) override { return none(); }
  Result<std::unique_ptr<ObjectWriter>> open_writer(std::string_view, std::uint64_t,
                                                    const Deadline&) override {
    return none();
  }
  Result<std::string> get(std::string_view, std::uint64_t, const Deadline&) const override { return none(); }
  Result<std::vector<std::string>> list(std::string_view, const Deadline&) const override { return none(); }
  Result<> remove(std::string_view, const Deadline&) override { return none(); }
  Result<> remove_folder(std::string_view, const Deadline&) override { return none(); }
  Result<> sync(std::string_view, const Deadline&) override { return none(); }
  Result<> advise(std::string_view, Bytes, const Deadline&) override { return none(); }
  Result<> append(std::string_view, Bytes, const Deadline&) override { return none(); }
  Result<std::uint64_t> free_bytes(const Deadline&) const override { return none(); }

 private:
  static Error none() { return {Code::unsupported, "it is only read"}; }
  const std::uint64_t bytes_, at_;
  const std::string run_;
};

// failure: ray-project/ray#35611
TEST(LoadShard, ReadsWhatLiesAcrossAndBeyondFourGib) {
  constexpr std::uint64_t kFour = std::uint64_t{1} << 32;
  // "across" lies on both sides of the 2^32nd byte, and "after" as far behind it as the others do.
  const ShardPlan plan = plan_shard({{{"big", DType::u8, {kFour - kPageBytes - 10}},
                                      {"across", DType::u8, {20}},
                                      {"after", DType::u8, {9}}}})
                             .value();
  ASSERT_EQ(plan.offsets[1], kFour - 10);
  const std::string run = "0123456789abcdefghijABCDEFGHI";
  const SparseStore store(plan.file_bytes, plan.offsets[1], run);
  Index index;
  index.data_offset = plan.data_offset;
  index.file_bytes = plan.file_bytes;
  for (const std::uint32_t t : plan.order)
    index.tensors.push_back({std::array{"big", "across", "after"}[t],
                             DType::u8,
                             {plan.bytes[t]},
                             plan.offsets[t],
                             plan.bytes[t],
                             {},
                             std::nullopt});
  std::vector<std::byte> chunk(kChunkBytes);
  std::vector<Xxh128> chunks(kFour / kChunkBytes, xxh128(chunk));
  store.read(kFour - kChunkBytes, chunk);
  chunks.back() = xxh128(chunk);
  chunk.resize(plan.file_bytes - kFour);
  store.read(kFour, chunk);
  chunks.push_back(xxh128(chunk));

  TestRun world;
  world.live([&](TestLife& me) {
    SparseStore sparse = store;
    const Seams seams{me.seams.clock, me.seams.random, me.seams.executor, sparse, me.seams.process};
    std::string across(20, '.'), after(9, '.');
    const std::vector<TensorTarget> targets{{"across", std::as_writable_bytes(std::span(across))},
                                            {"after", std::as_writable_bytes(std::span(after))}};
    std::vector<Damage> damage;
    const auto loaded = load_shard(seams, "data/x", index, chunks, targets, damage, me.by());
    ASSERT_TRUE(loaded.ok()) << loaded.error().what();
    EXPECT_EQ(across + after, run);
    std::swap(chunks[chunks.size() - 1], chunks[chunks.size() - 2]);
    EXPECT_TRUE(load_shard(seams, "data/x", index, chunks, {}, damage, me.by()).is(Code::corrupt));
    EXPECT_EQ(damage.front().offset, kFour - kChunkBytes);
  });
}

}  // namespace
}  // namespace unbroken
