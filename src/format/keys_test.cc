#include "format/keys.h"

#include <gtest/gtest.h>

namespace unbroken {
namespace {

using Kind = DataName::Kind;
const SaveId kSave{1200, 3, 1};
const Nonce kNonce{0xabc};

std::string_view below(std::string_view key, std::string_view prefix) {
  EXPECT_TRUE(key.starts_with(prefix)) << key;
  return key.substr(prefix.size());
}

TEST(Keys, ReadBackAsWhatTheyName) {
  const std::string prefix = save_prefix(kSave);
  EXPECT_EQ(prefix, "data/step-000000001200.a0003.t1/");
  EXPECT_EQ(save_from_name("step-000000001200.a0003.t1"), kSave);
  EXPECT_EQ(shard_key(kSave, 7, kNonce), prefix + "shard-00007.0000000000000abc.safetensors");
  EXPECT_EQ(data_name_from(below(shard_key(kSave, 7, kNonce), prefix)),
            (DataName{Kind::shard, 7, kNonce, {}}));
  EXPECT_EQ(data_name_from(below(index_key(kSave, 123456, kNonce), prefix)),
            (DataName{Kind::index, 123456, kNonce, {}}));
  EXPECT_EQ(data_name_from(below(sums_key(kSave, 0, kNonce), prefix)), (DataName{Kind::sums, 0, kNonce, {}}));
  EXPECT_EQ(data_name_from(below(receipt_key(kSave, 12), prefix)), (DataName{Kind::receipt, 12, {}, {}}));
  const Sha256 content = sha256(as_bytes("m"));
  EXPECT_EQ(data_name_from(below(manifest_key(kSave, content), prefix)),
            (DataName{Kind::manifest, 0, {}, content.hex().substr(0, 16)}));
  EXPECT_EQ(metrics_key(3), "metrics/a0003.jsonl");
  EXPECT_EQ(attempt_from_metrics_name("a0003.jsonl"), 3U);
  EXPECT_EQ(attempt_from_metrics_name("a12345.jsonl"), 12345U);
}

TEST(Keys, TakesNoOtherNameForOne) {
  for (const char* name :
       {"", "shard", "shard-0.0000000000000abc.json", "shard-00000.0000000000000ABC.json",
        "shard-000000.0000000000000abc.json", "shard-00000.0000000000000abc.json.tmp",
        "shard-99999999999.0000000000000abc.json", "shard-00000.json", "shard-00000..json", "receipt-0",
        "receipt-00000.tmp", "receipt--0001", "manifest-.json", "manifest-0123.json",
        "manifest-0123456789abcdef", "../receipt-00000", "Receipt-00000"})
    EXPECT_EQ(data_name_from(name), std::nullopt) << name;
  for (const char* name : {"a3.jsonl", "a0003", "b0003.jsonl", "a00003.jsonl", "a.jsonl"})
    EXPECT_EQ(attempt_from_metrics_name(name), std::nullopt) << name;
  EXPECT_EQ(save_from_name("step-1"), std::nullopt);
}

}  // namespace
}  // namespace unbroken
