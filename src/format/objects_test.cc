// Index, sums, receipt, manifest, RUN: what is written is read back, and nothing else is.
#include <gtest/gtest.h>

#include <cmath>

#include "format/run_object.h"
#include "format/sample.h"
#include "format/sums.h"

namespace unbroken {
namespace {

const SampleSave& sample() {
  static const SampleSave save = sample_save();
  return save;
}

/// The sealed text with one member changed and sealed again.
std::string with(std::string_view sealed, const char* key, Json value, bool is_twice = false) {
  const std::string_view line = sealed.substr(0, sealed.find('\n'));
  Json object = parse_json(line, {.depth = 250}).value();
  object[key] = std::move(value);
  return (is_twice ? seal_twice(object) : seal(object)).value();
}

std::string without(std::string_view sealed, const char* key) {
  Json object = parse_json(sealed.substr(0, sealed.find('\n')), {.depth = 250}).value();
  object.erase(key);
  return seal(object).value();
}

TEST(Index, IsReadBack) {
  const auto index = decode_index(sample().index);
  ASSERT_TRUE(index.ok()) << index.error().what();
  EXPECT_TRUE(index.value() == sample().decoded);
  EXPECT_EQ(encode_index(index.value()).value(), sample().index);
  EXPECT_EQ(index.value().find("model.tied"), index.value().find("model.weight"));
  EXPECT_EQ(index.value().find("model"), nullptr);
}

TEST(Index, KeepsBoxes) {
  Index index = sample().decoded;
  index.writers = 2;
  for (IndexedTensor& tensor : index.tensors)
    if (tensor.name == "model.weight") {
      tensor.shape = {4800, 3};
      tensor.box = Box{{1200, 0}, {2400, 3}};
    }
  EXPECT_TRUE(decode_index(encode_index(index).value()).value() == index);
  for (IndexedTensor& tensor : index.tensors)
    if (tensor.box) tensor.box->end[0] = 4801;
  EXPECT_TRUE(encode_index(index).is(Code::bad_argument));
}

TEST(Index, RefusesWhatDoesNotHold) {
  using Change = void (*)(Index&);
  const std::vector<Change> changes = {
      [](Index& i) { i.writer = 1; },
      [](Index& i) { i.chunk_bytes = 0; },
      [](Index& i) { i.chunk_bytes = 5000; },
      [](Index& i) { i.file_bytes += 1; },
      [](Index& i) { i.file_bytes -= 1; },
      [](Index& i) { i.data_offset = i.file_bytes + 1; },
      [](Index& i) { i.data_offset += 1; },
      [](Index& i) { std::swap(i.tensors[0], i.tensors[1]); },
      [](Index& i) { i.tensors[1].name = i.tensors[0].name; },
      [](Index& i) { i.tensors[0].name = ""; },
      [](Index& i) { i.tensors[0].bytes += 1; },
      [](Index& i) { i.tensors[0].offset += 1; },
      [](Index& i) { i.tensors[0].shape = {UINT64_MAX, 2}; },
      [](Index& i) { i.tensors[0].shape = Shape(17, 1); },
      [](Index& i) { i.tensors.pop_back(); },
      [](Index& i) { i.aliases[0].of = "model.tied"; },
      [](Index& i) { i.aliases[0].of = "nowhere"; },
      [](Index& i) { i.aliases[0].name = "model.bias"; },
      [](Index& i) { i.aliases.push_back(i.aliases[0]); },
      [](Index& i) { i.tree = Node{TensorRef{"nowhere", false}}; },
      [](Index& i) { i.tree = Node{List{List::Kind::set, {Node{true}, Node{false}}, {}}}; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Index index = sample().decoded;
    changes[i](index);
    EXPECT_TRUE(encode_index(index).is(Code::bad_argument)) << i;
  }
}

TEST(Index, RefusesAForeignShape) {
  EXPECT_TRUE(decode_index(with(sample().index, "format", 2)).is(Code::unsupported));
  EXPECT_TRUE(decode_index(with(sample().index, "format", 0)).is(Code::corrupt));
  const auto flag = decode_index(with(sample().index, "critical", Json::array({"sharded"})));
  ASSERT_TRUE(flag.is(Code::unsupported));
  EXPECT_NE(flag.error().what().find("\"sharded\""), std::string::npos);
  EXPECT_TRUE(decode_index(with(sample().index, "critical", Json::array({7}))).is(Code::corrupt));
  EXPECT_TRUE(decode_index(with(sample().index, "hash", "MD5")).is(Code::corrupt));
  EXPECT_TRUE(decode_index(with(sample().index, "a-later-addition", 1)).ok());
  for (const char* key : {"format", "critical", "save", "writer", "writers", "nonce", "hash", "chunk_bytes",
                          "data_offset", "file_bytes", "tensors", "aliases", "tree"}) {
    EXPECT_TRUE(decode_index(without(sample().index, key)).is(Code::corrupt)) << key;
    EXPECT_TRUE(decode_index(with(sample().index, key, Json{{"a", 1}})).is(Code::corrupt)) << key;
  }
}

TEST(Sums, AreReadBack) {
  const std::uint64_t count = chunk_count(sample().shard.size(), 4096);
  const auto chunks = decode_sums(sample().sums, count);
  ASSERT_TRUE(chunks.ok());
  EXPECT_EQ(encode_sums(chunks.value()), sample().sums);
  EXPECT_TRUE(decode_sums(sample().sums, count + 1).is(Code::corrupt));
  EXPECT_TRUE(decode_sums(sample().sums.substr(1), count).is(Code::corrupt));
  EXPECT_EQ(chunk_count(0, 4096), 0U);
  EXPECT_EQ(chunk_count(4096, 4096), 1U);
  EXPECT_EQ(chunk_count(4097, 4096), 2U);
  EXPECT_EQ(chunk_count(UINT64_MAX, 4096), std::uint64_t{1} << 52);
}

TEST(Receipt, IsReadBack) {
  EXPECT_TRUE(decode_receipt(sample().receipt).value() == sample().parsed);
  Receipt fresh = sample().parsed;
  fresh.resume.reset();
  EXPECT_TRUE(decode_receipt(encode_receipt(fresh).value()).value() == fresh);
}

TEST(Receipt, FitsOneSector) {
  Receipt large = sample().parsed;
  large.save = {999'999'999'999, 9999, 9};
  large.resume = large.save;
  large.writer = 99'999;
  large.open.slot = 999'999'999;
  large.shard_bytes = 999'999'999'999'999;
  large.index.bytes = kIndexBytesMax;
  large.sums.bytes = large.shard_bytes / 65536;
  EXPECT_LE(encode_receipt(large).value().size(), kReceiptBytesMax);
  large.save.step = UINT64_MAX;
  large.resume = SaveId{UINT64_MAX, UINT32_MAX, UINT32_MAX};
  EXPECT_TRUE(encode_receipt(large).is(Code::bad_argument));
}

TEST(Receipt, RefusesAForeignShape) {
  EXPECT_TRUE(decode_receipt(with(sample().receipt, "format", 2)).is(Code::unsupported));
  EXPECT_TRUE(decode_receipt(with(sample().receipt, "save", "1200")).is(Code::corrupt));
  EXPECT_TRUE(decode_receipt(with(sample().receipt, "resume", 5)).is(Code::corrupt));
  EXPECT_TRUE(decode_receipt(with(sample().receipt, "index", Json{{"bytes", -1}})).is(Code::corrupt));
  EXPECT_TRUE(decode_receipt(std::string(kReceiptBytesMax + 1, 'x')).is(Code::corrupt));
  for (const char* key :
       {"format", "save", "resume", "writer", "nonce", "life", "open", "shard_bytes", "index", "sums"})
    EXPECT_TRUE(decode_receipt(without(sample().receipt, key)).is(Code::corrupt)) << key;
}

TEST(Manifest, IsReadBack) {
  const SealedManifest& sealed = sample().manifest;
  const auto manifest = decode_manifest(sealed.text, sealed.sha256);
  ASSERT_TRUE(manifest.ok()) << manifest.error().what();
  EXPECT_TRUE(manifest.value().receipts.at(0) == sample().parsed);
  EXPECT_EQ(encode_manifest(manifest.value()).value().text, sealed.text);
  EXPECT_TRUE(decode_manifest(sealed.text, sha256(as_bytes("another"))).is(Code::corrupt));
}

TEST(Manifest, KeepsEveryMetric) {
  Manifest manifest = decode_manifest(sample().manifest.text, sample().manifest.sha256).value();
  manifest.metrics = {
      {"nan", std::nan("")}, {"up", HUGE_VAL}, {"down", -HUGE_VAL}, {"small", 5e-324}, {"third", 1.0 / 3}};
  const auto sealed = encode_manifest(manifest).value();
  const auto read = decode_manifest(sealed.text, sealed.sha256).value().metrics;
  EXPECT_TRUE(std::isnan(read.at("nan")));
  EXPECT_EQ(read.at("up"), HUGE_VAL);
  EXPECT_EQ(read.at("down"), -HUGE_VAL);
  EXPECT_EQ(read.at("small"), 5e-324);
  EXPECT_EQ(read.at("third"), 1.0 / 3);
}

TEST(Manifest, RefusesWhatIsNotItsOwn) {
  using Change = void (*)(Manifest&);
  const std::vector<Change> changes = {
      [](Manifest& m) { m.receipts[0].save.step += 1; },
      [](Manifest& m) { m.receipts[0].writer = 1; },
      [](Manifest& m) { m.receipts[0].open.slot += 1; },
      [](Manifest& m) { m.receipts[0].resume.reset(); },
      [](Manifest& m) { m.receipts.clear(); },
      [](Manifest& m) { m.world = 0; },
      [](Manifest& m) { m.health = "fine"; },
      [](Manifest& m) { m.details = Json::array(); },
      [](Manifest& m) { m.details["x"] = std::string(70000, 'x'); },
      [](Manifest& m) { m.provenance[std::string(300, 'k')] = ""; },
      [](Manifest& m) { m.provenance["bytes"] = "\xff"; },
      [](Manifest& m) {
        for (int i = 0; i < 300; ++i) m.metrics[std::to_string(i)] = i;
      },
  };
  const Manifest good = decode_manifest(sample().manifest.text, sample().manifest.sha256).value();
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Manifest manifest = good;
    changes[i](manifest);
    EXPECT_TRUE(encode_manifest(manifest).is(Code::bad_argument)) << i;
  }
}

TEST(Run, IsReadBackFromEitherCopy) {
  const RunObject run{uuid_from(0x0123456789abcdef, 0xfedcba9876543210), 1, {{}, {"later-extra"}}};
  EXPECT_EQ(run.uuid, "01234567-89ab-4def-bedc-ba9876543210");
  const std::string text = encode_run(run).value();
  EXPECT_TRUE(decode_run(text).value().run == run);
  for (std::size_t i = 0; i < text.size(); i += 7) {
    std::string bent = text;
    bent[i] ^= 1;
    EXPECT_TRUE(decode_run(bent).value().run == run) << i;
    EXPECT_TRUE(decode_run(bent).value().is_repaired);
  }
}

TEST(Run, IsJudgedByWhatWasReadAndHowFarTheRunCame) {
  using Kind = RunVerdict::Kind;
  const std::string ours = uuid_from(1, 2);
  const std::string text = encode_run({.uuid = ours, .features = {}}).value();
  std::string one_copy = text;
  one_copy[20] ^= 1;
  struct Case {
    Result<std::string> read;
    Kind before_open, after_open;
  };
  const Case cases[] = {
      {text, Kind::whole, Kind::whole},
      {Error(Code::not_found, "RUN"), Kind::unwritten, Kind::missing},
      {one_copy, Kind::repaired, Kind::repaired},
      {std::string("junk"), Kind::damaged, Kind::damaged},
      {Error(Code::corrupt, "RUN is no file"), Kind::damaged, Kind::damaged},
      {encode_run({.uuid = uuid_from(3, 4), .features = {}}).value(), Kind::foreign, Kind::foreign},
  };
  for (const Case& c : cases)
    for (const bool has_opened : {false, true}) {
      const RunVerdict verdict = judge_run(c.read, ours, has_opened).value();
      const Kind expected = has_opened ? c.after_open : c.before_open;
      EXPECT_EQ(verdict.kind, expected) << verdict.what;
      EXPECT_EQ(verdict.is_damage(), expected != Kind::whole && expected != Kind::unwritten);
      EXPECT_EQ(verdict.what.empty(), expected == Kind::whole);
    }
  EXPECT_TRUE(judge_run(Error(Code::unavailable, "EIO"), ours, true).is(Code::unavailable));
  EXPECT_TRUE(judge_run(with(text, "critical", Json::array({"erasure-coded"}), true), ours, true)
                  .is(Code::unsupported));
}

TEST(Run, RefusesWhatItDoesNotKnow) {
  const RunObject run{uuid_from(1, 2), 1, {}};
  const std::string text = encode_run(run).value();
  const auto flag = decode_run(with(text, "critical", Json::array({"erasure-coded"}), true));
  ASSERT_TRUE(flag.is(Code::unsupported));
  EXPECT_NE(flag.error().what().find("erasure-coded"), std::string::npos);
  const auto newer = decode_run(with(text, "format", 2, true));
  ASSERT_TRUE(newer.is(Code::unsupported));
  EXPECT_NE(newer.error().what().find("newer version"), std::string::npos);
  EXPECT_TRUE(decode_run(with(text, "run", "not-a-uuid", true)).is(Code::corrupt));
  EXPECT_TRUE(encode_run({"not-a-uuid", 1, {}}).is(Code::bad_argument));
  EXPECT_TRUE(encode_run({run.uuid, 1, {{"No Spaces"}, {}}}).is(Code::bad_argument));
}

}  // namespace
}  // namespace unbroken
