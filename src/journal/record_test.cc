#include "journal/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "journal/hint.h"

namespace unbroken {
namespace {

Record record_of(Fact fact, std::uint64_t slot = 7) {
  return {slot, Nonce{0xfeedULL}, sha256(as_bytes("before")), 1'700'000'000'123, std::move(fact)};
}

Commit full_commit() {
  Commit c;
  c.save = {UINT64_MAX, UINT32_MAX, UINT32_MAX};
  c.manifest = sha256(as_bytes("manifest"));
  c.manifest_bytes = UINT64_MAX;
  c.state_bytes = (std::uint64_t{1} << 53) + 1;
  c.metrics = {{"val_loss", 0.1},    {"huge", 1.7976931348623157e308},
               {"tiny", 5e-324},     {"whole", 3.0},
               {"minus", -0.0},      {"up", HUGE_VAL},
               {"down", -HUGE_VAL},  {"not", std::nan("")},
               {"na\"me\n\u00e9", 1}};
  c.health = "non-finite";
  c.tags = {"a", "Z_9.-"};
  return c;
}

Open full_open() {
  Open o;
  o.attempt = 3;
  o.world = 100'000;
  o.resume = SaveId{1200, 2, 1};
  o.asked = "best:val_loss";
  o.life = Nonce{UINT64_MAX};
  o.owner = {"4711", "node-1", "b00t", UINT64_MAX, 1, 2, 3, 4};
  return o;
}

std::vector<Fact> one_of_each() {
  const SaveId save{1200, 3, 1};
  Quarantine q{save, "run", "shard-00000", "aa", "bb", "node-1", Nonce{5}};
  Open fresh = full_open();
  fresh.resume.reset();
  return {Genesis{"00000000-0000-4000-8000-000000000001", 1, {}},
          full_open(),
          fresh,
          full_commit(),
          Abort{save, "rank 3 did not answer"},
          Intent{save},
          Deleted{{save, {0, 1, 0}}},
          Pin{save, Nonce{1}},
          Unpin{save, Nonce{2}},
          q,
          Verified{save, "run", "node-2"},
          Policy{5, 1},
          Policy{3, 2, 1000, BestRule{"val_loss", false}},
          Tag{save, "v1.0"},
          Untag{save, "v1.0"},
          Void{6, sha256(as_bytes("junk"))},
          Reserved{"LATER", false, {{"x", {1, 2}}}},
          Reserved{"SEAL", true, Json::object()}};
}

/// A record's file around any JSON, sealed as it should be.
std::string file_of(const Json& value) {
  return seal_twice(value).value();
}

Json json_of(const Fact& fact) {
  const std::string bytes = encode_record(record_of(fact)).value().bytes;
  return open_sealed_twice(bytes).value().value;
}

TEST(Record, ReadsBackEveryFact) {
  for (const Fact& fact : one_of_each()) {
    const auto encoded = encode_record(record_of(fact));
    ASSERT_TRUE(encoded.ok()) << type_of(fact) << encoded.error().what();
    const auto decoded = decode_record(encoded.value().bytes);
    ASSERT_TRUE(decoded.ok()) << type_of(fact) << decoded.error().what();
    EXPECT_EQ(decoded.value().digest, encoded.value().digest);
    EXPECT_FALSE(decoded.value().is_repaired);
    const Record& back = decoded.value().record;
    EXPECT_EQ(back.slot, 7U);
    EXPECT_EQ(back.writer, Nonce{0xfeed});
    EXPECT_EQ(back.previous, sha256(as_bytes("before")));
    EXPECT_EQ(back.at_unix_ms, 1'700'000'000'123);
    EXPECT_EQ(type_of(back.fact), type_of(fact));
    // The encoding is canonical, so equal bytes are equal facts.
    EXPECT_EQ(encode_record(back).value().bytes, encoded.value().bytes);
  }
}

TEST(Record, KeepsNumbersExactly) {
  const auto decoded = decode_record(encode_record(record_of(full_commit())).value().bytes);
  const auto& c = std::get<Commit>(decoded.value().record.fact);
  EXPECT_EQ(c.save, (SaveId{UINT64_MAX, UINT32_MAX, UINT32_MAX}));
  EXPECT_EQ(c.manifest_bytes, UINT64_MAX);
  EXPECT_EQ(c.state_bytes, (std::uint64_t{1} << 53) + 1);
  EXPECT_EQ(c.metrics.at("val_loss"), 0.1);
  EXPECT_EQ(c.metrics.at("huge"), std::numeric_limits<double>::max());
  EXPECT_EQ(c.metrics.at("tiny"), std::numeric_limits<double>::denorm_min());
  EXPECT_TRUE(std::signbit(c.metrics.at("minus")));
  EXPECT_EQ(c.metrics.at("up"), HUGE_VAL);
  EXPECT_EQ(c.metrics.at("down"), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(c.metrics.at("not")));
  EXPECT_EQ(c.metrics.size(), full_commit().metrics.size());
}

TEST(Record, StandsEveryFlippedByte) {
  const EncodedRecord whole = encode_record(record_of(full_open())).value();
  for (std::size_t i = 0; i < whole.bytes.size(); ++i) {
    for (const int mask : {0x01, 0x04, 0x80, 0xff}) {
      std::string bent = whole.bytes;
      bent[i] = static_cast<char>(bent[i] ^ mask);
      const auto decoded = decode_record(bent);
      ASSERT_TRUE(decoded.ok()) << i << ": " << decoded.error().what();
      EXPECT_TRUE(decoded.value().is_repaired);
      EXPECT_EQ(decoded.value().digest, whole.digest);
    }
  }
}

TEST(Record, RefusesDamageToBothCopies) {
  const std::string whole = encode_record(record_of(Intent{{1, 1, 0}})).value().bytes;
  for (std::size_t i = 0; i < whole.size() / 2; ++i) {
    std::string bent = whole;
    bent[i] = static_cast<char>(bent[i] ^ 2);
    bent[whole.size() - 1 - i] = static_cast<char>(bent[whole.size() - 1 - i] ^ 2);
    EXPECT_TRUE(decode_record(bent).is(Code::corrupt)) << i;
  }
}

TEST(Record, RefusesWhatIsCutOrLengthened) {
  const std::string whole = encode_record(record_of(Intent{{1, 1, 0}})).value().bytes;
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_TRUE(decode_record(whole.substr(0, bytes)).is(Code::corrupt)) << bytes;
  EXPECT_TRUE(decode_record(whole + "\n").is(Code::corrupt));
  EXPECT_TRUE(decode_record(whole + whole).is(Code::corrupt));
  EXPECT_TRUE(decode_record(std::string(4096, '\0')).is(Code::corrupt));
}

TEST(Record, RefusesTwoWholeCopiesThatDiffer) {
  const std::string a = encode_record(record_of(Intent{{1, 1, 0}})).value().bytes;
  const std::string b = encode_record(record_of(Intent{{2, 1, 0}})).value().bytes;
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(decode_record(a.substr(0, a.size() / 2) + b.substr(b.size() / 2)).is(Code::corrupt));
}

TEST(Record, WritesAtMost4KiB) {
  Deleted many;
  while (encode_record(record_of(many)).ok()) many.saves.push_back({many.saves.size(), 1, 0});
  EXPECT_TRUE(encode_record(record_of(many)).is(Code::bad_argument));
  many.saves.pop_back();
  EXPECT_LE(encode_record(record_of(many)).value().bytes.size(), 4096U);
  EXPECT_GE(many.saves.size(), 32U);  // what a collector puts into one record
}

TEST(Record, ReadsUpTo64KiB) {
  Json value = json_of(Reserved{"LATER", false, {{"pad", ""}}});
  const std::size_t rest = file_of(value).size();
  value["body"]["pad"] = std::string((65536 - rest) / 2, 'x');
  ASSERT_EQ(file_of(value).size(), 65536U);
  EXPECT_TRUE(decode_record(file_of(value)).ok());
  value["body"]["pad"] = std::string((65536 - rest) / 2 + 1, 'x');
  EXPECT_TRUE(decode_record(file_of(value)).is(Code::corrupt));
}

TEST(Record, CutsTextsForPeople) {
  const std::string long_text(5000, 'x');
  Open o = full_open();
  o.owner.job = o.owner.host = o.owner.boot_id = o.asked = long_text;
  Quarantine q{{1, 1, 0}, "run", long_text, long_text, long_text, long_text, {}};
  for (const Fact& fact :
       {Fact(o), Fact(q), Fact(Abort{{1, 1, 0}, long_text}),
        Fact(Abort{{1, 1, 0}, std::string(5000, '\x01')}), Fact(Abort{{1, 1, 0}, std::string(5000, '"')})})
    EXPECT_TRUE(encode_record(record_of(fact)).ok()) << type_of(fact);

  const auto cut = encode_record(record_of(Abort{{1, 1, 0}, std::string(1023, 'x') + "\u00e9"}));
  EXPECT_EQ(std::get<Abort>(cut.value().record.fact).why, std::string(1023, 'x'));  // not half of it
  const auto bad = encode_record(record_of(Abort{{1, 1, 0}, "a\xff z"}));
  EXPECT_EQ(std::get<Abort>(bad.value().record.fact).why, "a\ufffd z");
}

TEST(Record, KeepsTheMetricsThatFit) {
  Commit c = full_commit();
  EXPECT_EQ(keep_metrics_that_fit(c), 0U);
  for (int i = 0; i < 500; ++i) c.metrics["layer." + std::to_string(i) + ".grad_norm"] = 0.1 * i;
  EXPECT_TRUE(encode_record(record_of(c)).is(Code::bad_argument));
  const std::size_t before = c.metrics.size();
  const std::size_t dropped = keep_metrics_that_fit(c);
  EXPECT_EQ(c.metrics.size() + dropped, before);
  EXPECT_GE(c.metrics.size(), 20U);
  EXPECT_TRUE(encode_record(record_of(c)).ok());
  c.metrics = {{"bad\xff", 1.0}};
  EXPECT_EQ(keep_metrics_that_fit(c), 1U);
}

TEST(Record, KeepsTheMetricThatIsAskedForAndMakesRoomForTags) {
  Commit c;
  c.tags = std::vector<std::string>(kTagsMax, std::string(64, 't'));
  for (int i = 0; i < 100; ++i) c.metrics["metric-" + std::to_string(i)] = i / 7.0;
  c.metrics["z-loss"] = 0.25;
  EXPECT_GT(keep_metrics_that_fit(c, "z-loss"), 0U);
  EXPECT_EQ(c.metrics.at("z-loss"), 0.25);
  EXPECT_GT(c.metrics.size(), 5U);
  EXPECT_TRUE(encode_record(record_of(c)).ok());
}

TEST(Record, OfAPolicyOfBeforeReadsAsOneWithoutMore) {
  const Json value = json_of(Policy{5, 1});
  EXPECT_EQ(value["body"], (Json{{"keep_last", 5}, {"verified_min", 1}}));
  Json odd = json_of(Policy{5, 1, 7, BestRule{"loss", true}});
  odd["body"]["best"]["mode"] = "least";
  EXPECT_TRUE(decode_record(file_of(odd)).is(Code::corrupt));
}

TEST(Record, NeverWritesWhatItCouldNotRead) {
  Open no_attempt = full_open();
  no_attempt.attempt = 0;
  Commit long_tier = full_commit();
  long_tier.tier = std::string(65, 't');
  for (const Fact& fact :
       {Fact(no_attempt), Fact(long_tier), Fact(Tag{{}, ""}), Fact(Untag{{}, "a b"}),
        Fact(Tag{{}, std::string(65, 'x')}), Fact(Policy{3, 2, 0, BestRule{"", true}}), Fact(Policy{0, 2}),
        Fact(Policy{3, 0}), Fact(Genesis{"run", 2, {}}), Fact(Genesis{"run", 1, {"encryption"}}),
        Fact(Reserved{"LATER", true, Json::object()}), Fact(Reserved{"LATER", false, Json()}),
        Fact(Reserved{"INTENT", true, {{"save", to_json(SaveId{})}}})})
    EXPECT_TRUE(encode_record(record_of(fact)).is(Code::bad_argument)) << type_of(fact);
}

TEST(Record, RefusesALaterVersionAsUnsupported) {
  Json value = json_of(Reserved{"LATER", false, Json::object()});
  EXPECT_TRUE(decode_record(file_of(value)).ok());
  value["critical"] = true;
  EXPECT_TRUE(decode_record(file_of(value)).is(Code::unsupported));
  // SEAL is known; what is not might protect a checkpoint that this version would delete.
  value["type"] = "SEAL";
  EXPECT_TRUE(decode_record(file_of(value)).ok());
  value["type"] = "PROMOTED";
  EXPECT_TRUE(decode_record(file_of(value)).is(Code::unsupported));
  value["magic"] = "unbroken-record-2";
  EXPECT_TRUE(decode_record(file_of(value)).is(Code::unsupported));
  value["magic"] = "something-else";
  EXPECT_TRUE(decode_record(file_of(value)).is(Code::corrupt));

  value = json_of(Genesis{"run", 1, {}});
  value["body"]["features"] = {"encryption"};
  EXPECT_TRUE(decode_record(file_of(value)).is(Code::unsupported));
  value["body"] = {{"format", 2}, {"whatever", "follows"}};
  EXPECT_TRUE(decode_record(file_of(value)).is(Code::unsupported));
}

TEST(Record, KeepsWhatItSkips) {
  const auto decoded = decode_record(file_of(json_of(Reserved{"LATER", false, {{"x", {1, {{"y", 2}}}}}})));
  const auto& later = std::get<Reserved>(decoded.value().record.fact);
  EXPECT_EQ(later.type, "LATER");
  EXPECT_FALSE(later.is_critical);
  EXPECT_EQ(later.body, Json({{"x", {1, {{"y", 2}}}}}));
}

TEST(Record, RefusesEveryMissingOrMistypedMember) {
  for (const Fact& fact : one_of_each()) {
    const Json whole = json_of(fact);
    for (const auto& [key, old] : whole.items()) {
      Json bent = whole;
      bent.erase(key);
      EXPECT_FALSE(decode_record(file_of(bent)).ok()) << type_of(fact) << " without " << key;
      bent[key] = Json::array({"x"});
      EXPECT_FALSE(decode_record(file_of(bent)).ok()) << type_of(fact) << " with another " << key;
    }
    if (std::holds_alternative<Reserved>(fact)) continue;
    for (const auto& [key, old] : whole["body"].items()) {
      Json bent = whole;
      bent["body"].erase(key);
      const bool may_be_missing = key == "tags" || key == "keep_every" || key == "best";
      EXPECT_EQ(decode_record(file_of(bent)).ok(), may_be_missing)
          << type_of(fact) << " without body." << key;
      bent["body"][key] = Json::array({true});
      EXPECT_FALSE(decode_record(file_of(bent)).ok()) << type_of(fact) << " with another body." << key;
      bent["body"][key] = -1;
      EXPECT_FALSE(decode_record(file_of(bent)).ok()) << type_of(fact) << " with another body." << key;
    }
  }
}

TEST(Record, RefusesNumbersOutOfRange) {
  Json value = json_of(Intent{{1, 1, 0}});
  value["at"] = -5;
  EXPECT_TRUE(decode_record(file_of(value)).ok());
  value["at"] = UINT64_MAX;
  EXPECT_TRUE(decode_record(file_of(value)).is(Code::corrupt));
  value["at"] = 5;
  value["body"]["save"]["attempt"] = std::uint64_t{1} << 32;
  EXPECT_TRUE(decode_record(file_of(value)).is(Code::corrupt));
  value["body"]["save"]["attempt"] = 1.0;
  EXPECT_TRUE(decode_record(file_of(value)).is(Code::corrupt));
}

TEST(Record, IgnoresMembersThatALaterVersionAdds) {
  Json value = json_of(Intent{{1, 1, 0}});
  value["extra"] = 1;
  value["body"]["tier"] = "run";
  EXPECT_TRUE(decode_record(file_of(value)).ok());
}

TEST(Hint, ReadsBackAndFindsEveryFlippedBit) {
  for (const auto closed : {std::optional<std::uint64_t>{}, std::optional<std::uint64_t>{3}}) {
    const Hint hint{"run", UINT64_MAX, sha256(as_bytes("x")), closed};
    const std::string text = encode_hint(hint);
    const Hint back = decode_hint(text).value();
    EXPECT_EQ(back.run, hint.run);
    EXPECT_EQ(back.slot, hint.slot);
    EXPECT_EQ(back.record, hint.record);
    EXPECT_EQ(back.closed, hint.closed);
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::string bent = text;
      bent[i] = static_cast<char>(bent[i] ^ 1);
      EXPECT_TRUE(decode_hint(bent).is(Code::corrupt)) << i;
    }
  }
  EXPECT_TRUE(decode_hint("").is(Code::corrupt));
  EXPECT_TRUE(decode_hint(std::string(5000, 'x')).is(Code::corrupt));
  EXPECT_TRUE(
      decode_hint(
          seal({{"run", "r"}, {"slot", 1}, {"record", std::string(64, '0')}, {"closed", "x"}}).value())
          .is(Code::corrupt));
}

}  // namespace
}  // namespace unbroken
