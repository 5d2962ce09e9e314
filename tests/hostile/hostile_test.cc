// Every malformed file of tests/hostile is refused the way its name says (README.md there).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "format/index.h"
#include "format/manifest.h"
#include "format/receipt.h"
#include "format/shard.h"
#include "journal/fold/fold.h"
#include "journal/record.h"

namespace unbroken {
namespace {

namespace fs = std::filesystem;

using Reader = std::function<Result<>(std::string_view)>;

template <class T>
Result<> nothing(Result<T> result) {
  if (!result.ok()) return std::move(result).error();
  return Done{};
}

Result<> read_shard(std::string_view file) {
  UNBROKEN_TRY(const std::uint64_t size, header_size(as_bytes(file), file.size()));
  return nothing(read_header(as_bytes(file.substr(0, size)), file.size()));
}

/// As if COMMIT named just this text: what is in it is what is tried.
Result<> read_manifest(std::string_view text) {
  return nothing(decode_manifest(text, sha256(as_bytes(text.substr(0, text.find('\n'))))));
}

void read_all(const char* target, const Reader& read) {
  std::size_t count = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(UNBROKEN_SOURCE_DIR) / "tests" / "hostile" / target)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const std::string name = entry.path().filename().string();
    const Result<> result = read(bytes);
    ++count;
    if (name.starts_with("ok-")) {
      EXPECT_TRUE(result.ok()) << target << "/" << name << ": " << result.error().what();
    } else {
      EXPECT_TRUE(result.is(name.starts_with("newer-") ? Code::unsupported : Code::corrupt))
          << target << "/" << name;
    }
  }
  EXPECT_GE(count, 20U) << target;
}

TEST(Hostile, Shards) {
  read_all("shard", &read_shard);
}
TEST(Hostile, Trees) {
  read_all("tree", [](std::string_view text) { return nothing(parse_tree(text)); });
}
TEST(Hostile, Indexes) {
  read_all("index", [](std::string_view text) { return nothing(decode_index(text)); });
}
TEST(Hostile, Receipts) {
  read_all("receipt", [](std::string_view text) { return nothing(decode_receipt(text)); });
}
TEST(Hostile, Manifests) {
  read_all("manifest", &read_manifest);
}
TEST(Hostile, Folds) {
  read_all("fold", [](std::string_view text) { return nothing(decode_fold_text(text)); });
}
TEST(Hostile, Records) {
  read_all("record", [](std::string_view text) { return nothing(decode_record(text)); });
}

}  // namespace
}  // namespace unbroken
