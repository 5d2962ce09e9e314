// Files of every version, kept for ever: this version reads each of them, and still writes its own the same.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "format/verify.h"
#include "golden_run.h"
#include "journal/fold/fold.h"
#include "journal/history.h"

namespace unbroken {
namespace {

namespace fs = std::filesystem;

RunFiles read_folder(const fs::path& root) {
  RunFiles files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), root).generic_string()] =
        std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

const fs::path kGolden = fs::path(UNBROKEN_SOURCE_DIR) / "tests" / "golden";

TEST(Golden, IsStillWrittenTheSame) {
  for (const auto& [run, now] : GoldenRun::all()) {
    const RunFiles kept = read_folder(kGolden / "v1" / run);
    ASSERT_EQ(kept.size(), now.size());
    for (const auto& [key, bytes] : now)
      EXPECT_TRUE(kept.contains(key) && kept.at(key) == bytes) << run << "/" << key;
  }
}

History fold(const RunFiles& files) {
  History history;
  for (std::uint64_t slot = 0; files.contains(slot_key(slot)); ++slot) {
    const DecodedRecord decoded = decode_record(files.at(slot_key(slot))).value();
    EXPECT_TRUE(history.apply(decoded.record, decoded.digest).ok()) << slot;
  }
  return history;
}

std::vector<Damage> verify(const RunFiles& files, const Checkpoint& checkpoint) {
  const SaveId& save = checkpoint.commit.save;
  const Manifest manifest =
      decode_manifest(files.at(manifest_key(save, checkpoint.commit.manifest)), checkpoint.commit.manifest)
          .value();
  std::vector<Damage> found;
  for (const Receipt& receipt : manifest.receipts) {
    const std::string& index = files.at(index_key(save, receipt.writer, receipt.nonce));
    const std::string& shard = files.at(shard_key(save, receipt.writer, receipt.nonce));
    WriterCheck check(receipt);
    check.on_receipt(files.at(check.receipt_name()));
    EXPECT_TRUE(check.on_index(index).ok());
    check.on_sums(files.at(check.sums_name()));
    ShardEvidence evidence{shard.size(), {}, shard.substr(0, check.index->data_offset)};
    for (std::size_t at = 0; at < shard.size(); at += check.index->chunk_bytes)
      evidence.chunks.push_back(
          xxh128(as_bytes(std::string_view(shard).substr(at, check.index->chunk_bytes))));
    check.on_shard(evidence);
    const std::vector<Damage>& damage = check.damage;
    found.insert(found.end(), damage.begin(), damage.end());
  }
  return found;
}

TEST(Golden, IsReadAsItWasMeant) {
  for (const auto& version : fs::directory_iterator(kGolden)) {
    if (!version.is_directory()) continue;
    for (const auto& run : fs::directory_iterator(version.path())) {
      const RunFiles files = read_folder(run.path());
      const History history = fold(files);
      EXPECT_EQ(decode_run(files.at(std::string(kRunKey))).value().run.uuid, history.genesis()->run);
      ASSERT_FALSE(history.checkpoints().empty()) << run.path();
      for (const Checkpoint& checkpoint : history.checkpoints()) {
        if (checkpoint.is_intended) continue;
        EXPECT_TRUE(verify(files, checkpoint).empty()) << run.path();
      }
    }
  }
  const History sample = fold(read_folder(kGolden / "v1" / "sample"));
  ASSERT_EQ(sample.checkpoints().size(), 3U);
  EXPECT_EQ(sample.newest()->commit.save, (SaveId{200, 2, 1}));
  EXPECT_TRUE(sample.checkpoints()[1].is_quarantined());
  EXPECT_EQ(sample.lineage().size(), 2U);
}

TEST(Golden, HasAFoldThatStandsForTheRecordsBeforeIt) {
  const RunFiles files = read_folder(kGolden / "v1" / "folded");
  const DecodedRecord named = decode_record(files.at(slot_key(kFoldEvery))).value();
  const FoldRef ref{kFoldEvery, std::get<Summary>(named.record.fact)};
  History history = decode_fold(files.at(fold_key(ref)), ref, named.record.previous, kFoldEvery).value();
  EXPECT_EQ(history.checkpoints().size(), 3U);
  EXPECT_EQ(history.find({100, 1, 0})->pins.size(), 2U);
  EXPECT_TRUE(history.find({60, 1, 0})->is_intended);
  EXPECT_TRUE(history.may_be_deleted({50, 1, 0}));
  for (std::uint64_t slot = kFoldEvery; files.contains(slot_key(slot)); ++slot) {
    const DecodedRecord decoded = decode_record(files.at(slot_key(slot))).value();
    ASSERT_TRUE(history.apply(decoded.record, decoded.digest).ok()) << slot;
  }
  EXPECT_EQ(encode_fold(history).value().bytes, encode_fold(fold(files)).value().bytes);
}

}  // namespace
}  // namespace unbroken
