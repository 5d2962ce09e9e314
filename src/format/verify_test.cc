#include "format/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/keys.h"
#include "format/sample.h"

namespace unbroken {
namespace {

struct Saved {
  SampleSave save = sample_save();
  std::string receipt = save.receipt, index = save.index, sums = save.sums, shard = save.shard;

  std::vector<Damage> verify() const {
    ShardEvidence evidence{shard.size(), {}, shard.substr(0, save.plan.data_offset)};
    const Bytes bytes = as_bytes(shard);
    for (std::size_t at = 0; at < bytes.size(); at += 4096)
      evidence.chunks.push_back(xxh128(bytes.subspan(at, std::min<std::size_t>(4096, bytes.size() - at))));
    WriterCheck check(save.parsed);
    check.on_receipt(receipt);
    EXPECT_TRUE(check.on_index(index).ok());
    check.on_sums(sums);
    check.on_shard(evidence);
    return check.damage;
  }
};

std::string key_of(const SampleSave& save, std::string (*key)(const SaveId&, std::uint32_t, Nonce)) {
  return key(save.parsed.save, 0, save.parsed.nonce);
}

TEST(Verify, FindsNothingInAWholeSave) {
  EXPECT_THAT(Saved().verify(), testing::IsEmpty());
}

// failure: safetensors/safetensors#220
TEST(Verify, FindsEveryFlippedByte) {
  Saved saved;
  struct Part {
    std::string Saved::* bytes;
    std::string key;
  };
  const std::vector<Part> parts = {{&Saved::receipt, receipt_key(saved.save.parsed.save, 0)},
                                   {&Saved::index, key_of(saved.save, &index_key)},
                                   {&Saved::sums, key_of(saved.save, &sums_key)},
                                   {&Saved::shard, key_of(saved.save, &shard_key)}};
  for (const Part& part : parts) {
    std::string& bytes = saved.*part.bytes;
    const std::size_t stride = bytes.size() > 4096 ? 37 : 1;
    for (std::size_t i = 0; i < bytes.size(); i += stride) {
      bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
      const auto found = saved.verify();
      ASSERT_THAT(found, testing::SizeIs(1)) << part.key << " at " << i;
      EXPECT_EQ(found[0].object, part.key);
      EXPECT_EQ(found[0].offset, part.bytes == &Saved::shard ? i / 4096 * 4096 : 0U);
      bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    }
    for (std::size_t cut : {std::size_t{0}, std::size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
      const std::string whole = bytes;
      bytes.resize(cut);
      EXPECT_THAT(saved.verify(), testing::Not(testing::IsEmpty())) << part.key << " cut at " << cut;
      bytes = whole;
    }
  }
}

TEST(Verify, NamesTheTensorsOfADamagedChunk) {
  Saved saved;
  const IndexedTensor* mask = saved.save.decoded.find("model.mask");
  saved.shard[mask->offset] ^= 1;
  EXPECT_THAT(saved.verify().at(0).what, testing::HasSubstr("model.mask"));
  Saved header;
  header.shard[20] ^= 1;
  EXPECT_THAT(header.verify().at(0).what, testing::HasSubstr("the header"));
}

TEST(Verify, NamesWhatIsMissing) {
  const SampleSave save = sample_save();
  const Error missing(Code::not_found, "no such object");
  WriterCheck check(save.parsed);
  check.on_receipt(missing);
  EXPECT_TRUE(check.on_index(missing).ok());
  check.on_sums(missing);
  check.on_shard(missing);
  const std::vector<Damage>& found = check.damage;
  ASSERT_THAT(found, testing::SizeIs(4));
  for (const Damage& damage : found) {
    EXPECT_EQ(damage.what, "missing");
    EXPECT_EQ(damage.offset, 0U);
  }
}

TEST(Verify, CatchesObjectsOfAnotherSave) {
  const SampleSave other = sample_save({1300, 3, 0});
  Saved swapped;
  ASSERT_EQ(swapped.shard.size(), other.shard.size());
  swapped.shard = other.shard;
  EXPECT_THAT(swapped.verify(), testing::Not(testing::IsEmpty()));
  Saved index;
  index.index = other.index;
  EXPECT_THAT(index.verify(), testing::SizeIs(1));
  Saved receipt;
  receipt.receipt = other.receipt;
  EXPECT_THAT(receipt.verify(), testing::SizeIs(1));
  // The right digest does not help an index that speaks of another save.
  Receipt forged = Saved().save.parsed;
  forged.index = content_ref(other.index);
  EXPECT_TRUE(open_index(forged, other.index).is(Code::corrupt));
}

TEST(Verify, BelievesNoHeaderThatSaysSomethingElseWhateverItsSum) {
  Saved saved;
  const std::size_t at = saved.shard.find("model.bias");
  ASSERT_LT(at, saved.save.plan.data_offset);
  saved.shard[at] = 'M';
  std::vector<Xxh128> chunks;
  for (std::size_t i = 0; i < saved.shard.size(); i += 4096)
    chunks.push_back(xxh128(as_bytes(std::string_view(saved.shard).substr(i, 4096))));
  const auto found =
      verify_chunks(saved.save.decoded, chunks,
                    {saved.shard.size(), chunks, saved.shard.substr(0, saved.save.plan.data_offset)});
  ASSERT_THAT(found, testing::SizeIs(1));
  EXPECT_THAT(found[0].what, testing::HasSubstr("safetensors header"));
}

TEST(Verify, HoldsTheHeaderAgainstTheIndex) {
  const SampleSave save = sample_save();
  const Bytes head = as_bytes(std::string_view(save.shard).substr(0, save.plan.data_offset));
  EXPECT_TRUE(check_header(save.decoded, head).ok());
  Index renamed = save.decoded;
  renamed.tensors[0].name += "x";
  EXPECT_TRUE(check_header(renamed, head).is(Code::corrupt));
  Index retyped = save.decoded;
  for (IndexedTensor& tensor : retyped.tensors)
    if (tensor.dtype == DType::bf16) tensor.dtype = DType::f16;
  EXPECT_TRUE(check_header(retyped, head).is(Code::corrupt));
}

}  // namespace
}  // namespace unbroken
