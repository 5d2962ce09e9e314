#include "format/shard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "format/sample.h"

namespace unbroken {
namespace {

/// A file: length, JSON, data.
std::string file_of(std::string_view json, std::size_t data_bytes = 0) {
  std::string out(8, '\0');
  for (unsigned i = 0; i < 8; ++i) out[i] = static_cast<char>(json.size() >> (8 * i) & 255);
  return out + std::string(json) + std::string(data_bytes, 'd');
}

Result<ShardHeader> read(std::string_view file) {
  UNBROKEN_TRY(const std::uint64_t size, header_size(as_bytes(file), file.size()));
  return read_header(as_bytes(file.substr(0, size)), file.size());
}

TEST(Shard, PlansWhatItsReaderReads) {
  const std::vector<TensorSpec> specs = sample_tensors();
  const ShardPlan plan = plan_shard(specs).value();
  EXPECT_EQ(plan.data_offset % kPageBytes, 0U);
  EXPECT_EQ(plan.header.size(), plan.data_offset);
  const ShardHeader header = read_header(as_bytes(plan.header), plan.file_bytes).value();
  ASSERT_EQ(header.tensors.size(), specs.size());
  EXPECT_EQ(header.data_offset, plan.data_offset);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  for (std::size_t place = 0; place < specs.size(); ++place) {
    const std::size_t i = plan.order[place];
    const HeaderTensor& tensor = header.tensors[place];
    EXPECT_EQ(tensor.name, specs[i].name);
    EXPECT_EQ((StoredForm{tensor.dtype, tensor.shape}), stored_form(specs[i].dtype, specs[i].shape));
    EXPECT_EQ(tensor.offset, plan.offsets[i]);
    EXPECT_EQ(tensor.bytes, plan.bytes[i]);
    EXPECT_EQ((tensor.offset - plan.data_offset) * 8 % bits_of(tensor.dtype), 0U);
  }
}

// failure: ray-project/ray#35611
TEST(Shard, PlansAndReadsOffsetsBeyondFourGib) {
  constexpr std::uint64_t kBig = (std::uint64_t{4} << 30) + 5;
  const ShardPlan plan = plan_shard({{{"big", DType::u8, {kBig}}, {"after", DType::u8, {9}}}}).value();
  EXPECT_EQ(plan.offsets[1], plan.data_offset + kBig);
  EXPECT_EQ(plan.file_bytes, plan.data_offset + kBig + 9);
  const ShardHeader header = read_header(as_bytes(plan.header), plan.file_bytes).value();
  EXPECT_EQ(header.tensors[0].bytes, kBig);
  EXPECT_EQ(header.tensors[1].offset, plan.offsets[1]);
  const auto cut = read_header(as_bytes(plan.header), plan.file_bytes - (std::uint64_t{1} << 32));
  EXPECT_TRUE(cut.is(Code::corrupt)) << "of another length by what 32 bits do not hold";
}

TEST(Shard, HoldsNothingAtAll) {
  const ShardPlan plan = plan_shard({}).value();
  EXPECT_EQ(plan.file_bytes, kPageBytes);
  EXPECT_TRUE(read_header(as_bytes(plan.header), plan.file_bytes).value().tensors.empty());
}

TEST(Shard, StartsDataOnAPageWhateverTheHeadersLength) {
  for (std::size_t length = 1; length < 200; ++length) {
    std::vector<TensorSpec> specs;
    for (int i = 0; i < 30; ++i)
      specs.push_back({std::string(length, 'n') + std::to_string(i), DType::u8, {1}});
    const ShardPlan plan = plan_shard(specs).value();
    EXPECT_EQ(plan.data_offset % kPageBytes, 0U);
    EXPECT_TRUE(read_header(as_bytes(plan.header), plan.file_bytes).ok()) << length;
  }
}

TEST(Shard, RefusesAPlanThatNoReaderTakes) {
  using Specs = std::vector<TensorSpec>;
  for (const Specs& specs : {Specs{{"a", DType::u8, {1}}, {"a", DType::u8, {1}}}, Specs{{"", DType::u8, {}}},
                             Specs{{"__metadata__", DType::u8, {}}}, Specs{{"a", DType::u8, {UINT64_MAX, 2}}},
                             Specs{{"a", DType::u8, {INT64_MAX}}, {"b", DType::u8, {INT64_MAX}}},
                             Specs{{"a", DType::f4, {3}}}, Specs{{"a", DType::u8, Shape(17, 1)}},
                             Specs{{"a", DType::c128, Shape(16, 1)}}, Specs{{"a\n", DType::u8, {}}}})
    EXPECT_TRUE(plan_shard(specs).is(Code::bad_argument));
  EXPECT_TRUE(plan_shard(Specs{{"a", DType::u8, Shape(16, 1)}}).ok());
}

TEST(Shard, ReadsWhatSafetensorsAllows) {
  EXPECT_TRUE(read(file_of("{}")).ok());
  EXPECT_TRUE(read(file_of("{}     ")).ok());
  EXPECT_TRUE(read(file_of(R"({"__metadata__":{"a":"b"}})")).ok());
  // Entries in any order, members in any order, an empty tensor between, a scalar, a sub-byte type.
  const auto header = read(file_of(
      R"({"b":{"shape":[],"data_offsets":[3,7],"dtype":"F32"},"e":{"dtype":"F64","shape":[0,9],"data_offsets":[3,3]},)"
      R"("a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}})",
      7));
  ASSERT_TRUE(header.ok()) << header.error().what();
  ASSERT_EQ(header.value().tensors.size(), 3U);
  EXPECT_EQ(header.value().tensors[0].name, "a");
  EXPECT_EQ(header.value().tensors[1].name, "e");
  EXPECT_EQ(header.value().tensors[2].offset, header.value().data_offset + 3);
}

TEST(Shard, RefusesEveryBrokenRule) {
  const auto entry = [](std::string_view members) {
    return file_of(fmt::format("{{\"a\":{{{}}}}}", members), 4);
  };
  const std::vector<std::string> files = {
      "",
      std::string(7, '\0'),
      std::string(8, '\0'),
      std::string(8, '\xff') + "{}",
      file_of("{}", 1),
      file_of("[]"),
      file_of(" {}"),
      file_of("\xef\xbb\xbf{}"),
      file_of("{} x"),
      file_of("{}{}"),
      file_of("{"),
      file_of(R"({"a":1})", 4),
      file_of(R"({"a":[]})", 4),
      file_of(R"({"a":null})", 4),
      file_of("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4),
      file_of(R"({"__metadata__":{"a":1}})"),
      file_of(R"({"__metadata__":{"a":{}}})"),
      file_of(R"({"__metadata__":{"a":"b","a":"c"}})"),
      file_of(R"({"__metadata__":{},"__metadata__":{}})"),
      file_of(R"({"__metadata__":"x"})"),
      entry(R"("dtype":"U8","shape":[4])"),
      entry(R"("dtype":"U8","data_offsets":[0,4])"),
      entry(R"("shape":[4],"data_offsets":[0,4])"),
      entry(R"("dtype":"U9","shape":[4],"data_offsets":[0,4])"),
      entry(R"("dtype":"C128","shape":[4],"data_offsets":[0,4])"),
      entry(R"("dtype":8,"shape":[4],"data_offsets":[0,4])"),
      entry(R"("dtype":"U8","shape":4,"data_offsets":[0,4])"),
      entry(R"("dtype":"U8","shape":[4.0],"data_offsets":[0,4])"),
      entry(R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])"),
      entry(R"("dtype":"U8","shape":[[4]],"data_offsets":[0,4])"),
      entry(R"("dtype":"U8","shape":["4"],"data_offsets":[0,4])"),
      entry(R"("dtype":"U8","shape":[4],"data_offsets":[0])"),
      entry(R"("dtype":"U8","shape":[4],"data_offsets":[0,4,4])"),
      entry(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"),
      entry(R"("dtype":"U8","shape":[4],"data_offsets":[0,3])"),
      entry(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"),
      entry(R"("dtype":"U8","shape":[3],"data_offsets":[1,4])"),
      entry(R"("dtype":"U8","shape":[5],"data_offsets":[0,5])"),
      entry(R"("dtype":"F4","shape":[7],"data_offsets":[0,4])"),
      entry(R"("dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4])"),
      entry(R"("dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4])"),
      entry(R"("dtype":"U8","shape":[4],"data_offsets":[0,4],"note":"x")"),
      entry(R"("dtype":"U64","shape":[2305843009213693952],"data_offsets":[0,0])"),
      entry(R"("dtype":"U8","shape":[18446744073709551615,18446744073709551615,0],"data_offsets":[0,0])"),
      entry(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4])"),
      entry(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4],"data_offsets":[0,4])"),
      file_of(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})",
          4),
      file_of(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
          4),
      file_of(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          4),
      file_of(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"\u0061":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
          4),
      file_of(R"({"a\u0000":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4),
      file_of(R"({"":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4),
      file_of("{\"" + std::string(1025, 'n') + R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4),
      file_of(R"({"a":)" + std::string(100000, '[')),
  };
  for (const std::string& file : files) EXPECT_TRUE(read(file).is(Code::corrupt)) << file.substr(8, 200);
  EXPECT_TRUE(read(entry(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])")).ok());
}

TEST(Shard, NeedsTheWholeHeader) {
  const ShardPlan plan = plan_shard(sample_tensors()).value();
  const Bytes head = as_bytes(plan.header);
  EXPECT_EQ(header_size(head, plan.file_bytes).value(), plan.header.size());
  EXPECT_TRUE(read_header(head.first(head.size() - 1), plan.file_bytes).is(Code::corrupt));
  EXPECT_TRUE(read_header(head, plan.file_bytes - 1).is(Code::corrupt));
  EXPECT_TRUE(read_header(head, plan.file_bytes + 1).is(Code::corrupt));
  EXPECT_TRUE(header_size(head, head.size() - 1).is(Code::corrupt));
}

}  // namespace
}  // namespace unbroken
