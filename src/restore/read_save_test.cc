#include "restore/read_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/json.h"
#include "format/keys.h"
#include "format/sample.h"

namespace unbroken {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Depth = ReadSave::Depth;

/// The objects of one save, and what is asked about them.
class Saved {
 public:
  Saved() : sample_(sample_save({1200, 3, 0}, kChunkBytes)) {
    commit.save = sample_.parsed.save;
    commit.manifest = sample_.manifest.sha256;
    commit.manifest_bytes = sample_.manifest.text.size();
    objects = {{manifest(), sample_.manifest.text},
               {receipt(), sample_.receipt},
               {index(), sample_.index},
               {sums(), sample_.sums},
               {shard(), sample_.shard}};
  }
  Commit commit;
  std::map<std::string, std::string> objects;
  std::map<std::string, Error> failing;

  std::string manifest() const { return manifest_key(commit.save, commit.manifest); }
  std::string receipt() const { return receipt_key(commit.save, 0); }
  std::string index() const { return index_key(commit.save, 0, sample_.parsed.nonce); }
  std::string sums() const { return sums_key(commit.save, 0, sample_.parsed.nonce); }
  std::string shard() const { return shard_key(commit.save, 0, sample_.parsed.nonce); }
  std::vector<std::string> all() const { return {manifest(), receipt(), index(), sums(), shard()}; }
  const SampleSave& sample() const { return sample_; }

  /// Another index, which receipt, manifest and COMMIT vouch for.
  void reindex(const std::string& text) {
    Receipt parsed = sample_.parsed;
    parsed.index = content_ref(text);
    objects[index()] = text;
    objects[receipt()] = encode_receipt(parsed).value();
    Manifest decoded = decode_manifest(sample_.manifest.text, sample_.manifest.sha256).value();
    decoded.receipts = {parsed};
    const SealedManifest sealed = encode_manifest(decoded).value();
    objects.erase(manifest());
    commit.manifest = sealed.sha256;
    commit.manifest_bytes = sealed.text.size();
    objects[manifest()] = sealed.text;
  }

  Result<ReadSave::Found> read(Depth depth = Depth::everything) {
    ReadSave machine(commit, depth);
    std::vector<Action> pending = machine.start();
    while (!pending.empty()) {
      const Event event = answer(pending.front());
      pending.erase(pending.begin());
      for (Action& next : machine.on(event)) pending.push_back(std::move(next));
    }
    EXPECT_TRUE(machine.is_over());
    return machine.take();
  }

 private:
  Event answer(const Action& action) {
    if (const auto* get = std::get_if<GetObject>(&action)) {
      if (failing.contains(get->key)) return ActionFailed{get->key, failing.at(get->key)};
      const auto it = objects.find(get->key);
      if (it == objects.end()) return GotObject{get->key, std::nullopt};
      if (it->second.size() > get->bytes_max) return ActionFailed{get->key, Error(Code::corrupt, "too long")};
      return GotObject{get->key, it->second};
    }
    if (const auto* stat = std::get_if<StatObject>(&action)) {
      if (failing.contains(stat->key)) return ActionFailed{stat->key, failing.at(stat->key)};
      const auto it = objects.find(stat->key);
      if (it == objects.end()) return StatedObject{stat->key, std::nullopt};
      return StatedObject{stat->key, it->second.size()};
    }
    const auto& hash = std::get<HashObject>(action);
    if (failing.contains(hash.key)) return ActionFailed{hash.key, failing.at(hash.key)};
    const auto it = objects.find(hash.key);
    if (it == objects.end()) return ActionFailed{hash.key, Error(Code::not_found, "no such file")};
    HashedObject out{hash.key, it->second.size(), {}, {}};
    if (out.bytes != hash.bytes) return out;
    out.head = it->second.substr(0, hash.head_bytes);
    const Bytes bytes = as_bytes(it->second);
    for (std::size_t begin = 0; begin < bytes.size(); begin += hash.chunk_bytes)
      out.chunks.push_back(
          xxh128(bytes.subspan(begin, std::min<std::size_t>(hash.chunk_bytes, bytes.size() - begin))));
    return out;
  }

  SampleSave sample_;
};

std::vector<std::string> damaged(const ReadSave::Found& found) {
  std::vector<std::string> out;
  for (const Damage& d : found.damage) out.push_back(d.object);
  return out;
}

TEST(ReadSave, DescribesAWholeSave) {
  Saved saved;
  for (const Depth depth : {Depth::description, Depth::everything}) {
    const auto found = saved.read(depth);
    ASSERT_TRUE(found.ok()) << found.error().what();
    EXPECT_THAT(found.value().damage, IsEmpty());
    ASSERT_TRUE(found.value().state);
    EXPECT_EQ(found.value().state->shard, saved.shard());
    EXPECT_EQ(found.value().state->index, saved.sample().decoded);
    EXPECT_EQ(encode_sums(found.value().state->chunks), saved.sample().sums);
    EXPECT_EQ(found.value().state->manifest.receipts.front(), saved.sample().parsed);
  }
}

TEST(ReadSave, CountsTheBytesItRead) {
  Saved saved;
  std::uint64_t all = 0;
  for (const auto& [key, bytes] : saved.objects) all += bytes.size();
  EXPECT_EQ(saved.read(Depth::everything).value().bytes_read, all);
  EXPECT_EQ(saved.read(Depth::description).value().bytes_read, all - saved.sample().shard.size());
}

// failure: xtdb/xtdb#1868
TEST(ReadSave, NamesEveryObjectThatIsMissing) {
  for (const std::string& key : Saved().all()) {
    Saved saved;
    saved.objects.erase(key);
    const auto found = saved.read();
    ASSERT_TRUE(found.ok()) << key;
    EXPECT_THAT(damaged(found.value()), ElementsAre(key));
    EXPECT_EQ(found.value().damage[0].offset, 0u);
    EXPECT_EQ(found.value().damage[0].what, "missing");
  }
}

TEST(ReadSave, NamesEveryObjectWithAFlippedBit) {
  for (const std::string& key : Saved().all()) {
    const std::size_t size = Saved().objects.at(key).size();
    for (const std::size_t at : {std::size_t{0}, size / 3, size / 2, size - 1}) {
      Saved saved;
      saved.objects.at(key)[at] ^= 4;
      const auto found = saved.read();
      ASSERT_TRUE(found.ok()) << key << " byte " << at << ": " << found.error().what();
      EXPECT_THAT(damaged(found.value()), ElementsAre(key)) << "byte " << at;
    }
  }
}

// failure: pytorch/torchtitan#4011
TEST(ReadSave, NamesEveryObjectThatIsTooLongOrTooShort) {
  for (const std::string& key : Saved().all()) {
    const std::map<std::string, std::function<void(std::string&)>> changes{
        {"one more", [](std::string& s) { s += 'x'; }},
        {"one less", [](std::string& s) { s.pop_back(); }},
        {"empty", [](std::string& s) { s.clear(); }},
        {"far too long", [](std::string& s) { s.append(70 << 20, ' '); }}};
    for (const auto& [what, change] : changes) {
      Saved saved;
      change(saved.objects.at(key));
      const auto found = saved.read();
      ASSERT_TRUE(found.ok()) << key << " " << what;
      EXPECT_THAT(damaged(found.value()), ElementsAre(key)) << what;
    }
  }
}

TEST(ReadSave, SaysThatAnObjectIsTooLong) {
  Saved saved;
  saved.objects.at(saved.manifest()).append(70 << 20, ' ');
  EXPECT_THAT(saved.read().value().damage.at(0).what, HasSubstr("too long"));
}

TEST(ReadSave, FindsSeveralDamagedObjects) {
  Saved saved;
  saved.objects.erase(saved.receipt());
  saved.objects.at(saved.shard())[5000] ^= 1;
  EXPECT_THAT(damaged(saved.read().value()), ElementsAre(saved.receipt(), saved.shard()));
}

TEST(ReadSave, NamesTheTensorThatADamagedChunkHolds) {
  Saved saved;
  saved.objects.at(saved.shard())[saved.sample().plan.data_offset + 100] ^= 1;
  const auto found = saved.read();
  ASSERT_THAT(found.value().damage, SizeIs(1));
  EXPECT_THAT(found.value().damage[0].what, HasSubstr("model."));
  EXPECT_TRUE(found.value().state) << "it can be described all the same";
}

TEST(ReadSave, LooksAtTheShardOnlyWhereAsked) {
  Saved saved;
  saved.objects.erase(saved.shard());
  const auto found = saved.read(Depth::description);
  EXPECT_THAT(found.value().damage, IsEmpty());
  EXPECT_TRUE(found.value().state);
}

TEST(ReadSave, DescribesNothingWithoutManifestIndexOrSums) {
  for (const std::string& key : {Saved().manifest(), Saved().index(), Saved().sums()}) {
    Saved saved;
    saved.objects.erase(key);
    EXPECT_FALSE(saved.read().value().state) << key;
  }
}

TEST(ReadSave, TakesAManifestOfAnotherLengthForDamage) {
  Saved saved;
  saved.commit.manifest_bytes += 1;
  EXPECT_THAT(damaged(saved.read().value()), ElementsAre(saved.manifest()));
}

TEST(ReadSave, TakesWhatCannotBeReadForNoDamage) {
  for (const std::string& key : Saved().all()) {
    for (const Code code : {Code::unavailable, Code::late, Code::stopped}) {
      Saved saved;
      saved.failing.emplace(key, Error(code, "read " + key + ": EIO"));
      const auto found = saved.read();
      ASSERT_TRUE(found.is(code)) << key;
      EXPECT_THAT(found.error().what(), HasSubstr(key));
    }
  }
}

/// The same sealed object with one more critical feature.
std::string with_feature(std::string_view sealed) {
  Json object = parse_json(sealed.substr(0, sealed.find('\n')), {.depth = 250}).value();
  object["critical"] = Json::array({"erasure-coded"});
  return seal(object).value();
}

TEST(ReadSave, TakesAFeatureThatItDoesNotKnowForNoDamage) {
  Saved manifest;
  const std::string key = manifest.manifest();
  const std::string text = with_feature(manifest.objects.at(key));
  manifest.objects.erase(key);
  manifest.commit.manifest = open_sealed(text).value().digest;
  manifest.commit.manifest_bytes = text.size();
  manifest.objects[manifest.manifest()] = text;
  const auto found = manifest.read();
  ASSERT_TRUE(found.is(Code::unsupported));
  EXPECT_THAT(found.error().what(), HasSubstr("erasure-coded"));

  Saved index;
  index.reindex(with_feature(index.objects.at(index.index())));
  const auto of_index = index.read();
  ASSERT_TRUE(of_index.is(Code::unsupported)) << (of_index.ok() ? "ok" : of_index.error().what());
  EXPECT_THAT(of_index.error().what(), HasSubstr("erasure-coded"));
}

TEST(ReadSave, NamesEveryObjectThatIsNoFile) {
  for (const std::string& key : Saved().all()) {
    Saved saved;
    saved.failing.emplace(key, Error(Code::corrupt, "a pipe stands there, not a file"));
    const auto found = saved.read();
    ASSERT_TRUE(found.ok()) << key;
    EXPECT_THAT(damaged(found.value()), ElementsAre(key));
    EXPECT_THAT(found.value().damage[0].what, HasSubstr("a pipe"));
  }
}

TEST(ReadSave, NamesAllThatAreStrangeAtOnce) {
  Saved saved;
  for (const std::string& key : {saved.receipt(), saved.index(), saved.sums(), saved.shard()})
    saved.failing.emplace(key, Error(Code::corrupt, "a directory stands there, not a file"));
  EXPECT_THAT(damaged(saved.read().value()),
              ElementsAre(saved.receipt(), saved.index(), saved.sums(), saved.shard()));
}

TEST(ReadSave, AnAuditNotesWhatCannotBeReadNowAndGoesOn) {
  for (const std::string& key : Saved().all()) {
    Saved saved;
    saved.failing.emplace(key, Error(Code::unavailable, "read " + key + ": EIO"));
    const bool is_manifest = key == saved.manifest();
    if (key != saved.receipt()) saved.objects.erase(saved.receipt());
    const auto found = saved.read(Depth::audit);
    ASSERT_TRUE(found.ok()) << found.error().what();
    ASSERT_THAT(found.value().unread, SizeIs(1));
    EXPECT_EQ(found.value().unread[0].object, key);
    EXPECT_EQ(found.value().damage.empty(), is_manifest || key == saved.receipt()) << key;
  }
  Saved late;
  late.failing.emplace(late.receipt(), Error(Code::late, "the deadline has passed"));
  EXPECT_TRUE(late.read(Depth::audit).is(Code::late));
}

TEST(ReadSave, ReadsNoMoreThanWhatVouchesForAnObjectSays) {
  Saved saved;
  ReadSave machine(saved.commit, Depth::everything);
  std::vector<Action> pending = machine.start();
  EXPECT_EQ(std::get<GetObject>(pending.at(0)).bytes_max, saved.commit.manifest_bytes);
  std::vector<std::uint64_t> caps;
  while (!machine.is_over()) {
    const auto* get = std::get_if<GetObject>(&pending.at(0));
    if (get == nullptr) {
      const auto& hash = std::get<HashObject>(pending[0]);
      EXPECT_EQ(hash.bytes, saved.sample().shard.size());
      pending = machine.on(HashedObject{hash.key, hash.bytes + 1, {}, {}});
      continue;
    }
    caps.push_back(get->bytes_max);
    pending = machine.on(GotObject{get->key, saved.objects.at(get->key)});
  }
  EXPECT_THAT(caps, ElementsAre(saved.commit.manifest_bytes, kReceiptBytesMax, saved.sample().index.size(),
                                saved.sample().sums.size()));
  EXPECT_THAT(damaged(machine.take().value()), ElementsAre(saved.shard())) << "of another length, and unread";
}

TEST(ReadSave, TakesAShardThatEndsWhileItIsReadForDamage) {
  Saved saved;
  saved.failing.emplace(saved.shard(), Error(Code::corrupt, "ends after 12 bytes"));
  EXPECT_THAT(damaged(saved.read().value()), ElementsAre(saved.shard()));
}

}  // namespace
}  // namespace unbroken
