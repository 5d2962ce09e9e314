#include "format/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "format/keys.h"
#include "format/shard.h"
#include "format/sums.h"

namespace unbroken {

namespace {

Result<> check_content(const ContentRef& expected, std::string_view bytes) {
  if (bytes.size() != expected.bytes)
    return Error(Code::corrupt,
                 fmt::format("has {} bytes, the receipt says {}", bytes.size(), expected.bytes));
  const Xxh128 seen = xxh128(as_bytes(bytes));
  if (seen != expected.digest)
    return Error(Code::corrupt,
                 fmt::format("its XXH3-128 is {}, the receipt says {}", seen.hex(), expected.digest.hex()));
  return Done{};
}

/// Tensors in [begin, end) of the file: "a.weight, a.bias and 3 more". `tensors` is sorted by offset.
std::string tensors_in(const Index& index, std::uint64_t begin, std::uint64_t end) {
  constexpr std::size_t kNamed = 3;
  auto it = std::partition_point(index.tensors.begin(), index.tensors.end(),
                                 [&](const IndexedTensor& t) { return t.offset + t.bytes <= begin; });
  std::string out;
  std::size_t count = 0;
  for (; it != index.tensors.end() && it->offset < end; ++it) {
    if (it->bytes == 0) continue;
    if (++count <= kNamed) out += (count == 1 ? "" : ", ") + it->name;
  }
  if (count > kNamed) out += fmt::format(" and {} more", count - kNamed);
  return out.empty() ? "the header" : out;
}

class Findings {
 public:
  std::vector<Damage> take() { return std::move(found_); }
  void add(const std::string& object, std::uint64_t offset, std::string what) {
    found_.push_back({object, offset, std::move(what)});
  }
  void add_all(std::vector<Damage> damage) {
    found_.insert(found_.end(), std::make_move_iterator(damage.begin()),
                  std::make_move_iterator(damage.end()));
  }
  void missing(const std::string& object) { add(object, 0, "missing"); }
  template <class T>
  bool add_error(const std::string& object, const Result<T>& result) {
    if (!result.ok()) add(object, 0, result.error().what());
    return !result.ok();
  }

 private:
  std::vector<Damage> found_;
};

void verify_receipt(const Receipt& expected, std::optional<std::string_view> text, Findings& findings) {
  const std::string key = receipt_key(expected.save, expected.writer);
  if (!text) return findings.missing(key);
  const auto seen = decode_receipt(*text);
  if (findings.add_error(key, seen)) return;
  if (!(seen.value() == expected)) findings.add(key, 0, "says something else than the manifest");
}

}  // namespace

Result<Index> open_index(const Receipt& receipt, std::string_view text) {
  UNBROKEN_DO(check_content(receipt.index, text));
  UNBROKEN_TRY(Index index, decode_index(text));
  const bool fits = index.save == receipt.save && index.nonce == receipt.nonce &&
                    index.writer == receipt.writer && index.file_bytes == receipt.shard_bytes;
  if (!fits) return Error(Code::corrupt, "is the index of another save, writer or shard");
  return index;
}

Result<std::vector<Xxh128>> open_sums(const Receipt& receipt, const Index& index, std::string_view bytes) {
  UNBROKEN_DO(check_content(receipt.sums, bytes));
  return decode_sums(bytes, chunk_count(index.file_bytes, index.chunk_bytes));
}

Result<> check_header(const Index& index, Bytes head) {
  UNBROKEN_TRY(const ShardHeader header, read_header(head, index.file_bytes));
  if (header.data_offset != index.data_offset || header.tensors.size() != index.tensors.size())
    return Error(Code::corrupt, "safetensors header: it holds other tensors than the index");
  // Both are in file order; tensors without bytes may share a place, so they are told apart by name.
  std::vector<const HeaderTensor*> by_name;
  std::vector<const IndexedTensor*> expected;
  for (const HeaderTensor& tensor : header.tensors) by_name.push_back(&tensor);
  for (const IndexedTensor& tensor : index.tensors) expected.push_back(&tensor);
  const auto name_less = [](const auto* a, const auto* b) { return a->name < b->name; };
  std::sort(by_name.begin(), by_name.end(), name_less);
  std::sort(expected.begin(), expected.end(), name_less);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const HeaderTensor& seen = *by_name[i];
    const IndexedTensor& tensor = *expected[i];
    Shape held = tensor.shape;
    if (tensor.box)
      for (std::size_t axis = 0; axis < held.size(); ++axis)
        held[axis] = tensor.box->end[axis] - tensor.box->begin[axis];
    const bool fits = seen.name == tensor.name && seen.offset == tensor.offset &&
                      seen.bytes == tensor.bytes &&
                      StoredForm{seen.dtype, seen.shape} == stored_form(tensor.dtype, held);
    if (!fits)
      return Error(Code::corrupt,
                   fmt::format("safetensors header: \"{}\" is not what the index says", tensor.name));
  }
  return Done{};
}

std::vector<Damage> verify_chunks(const Index& index, const std::vector<Xxh128>& expected,
                                  const ShardEvidence& shard) {
  const std::string key = shard_key(index.save, index.writer, index.nonce);
  Findings findings;
  if (shard.bytes != index.file_bytes) {
    findings.add(key, std::min(shard.bytes, index.file_bytes),
                 fmt::format("has {} bytes, the index says {}", shard.bytes, index.file_bytes));
    return findings.take();
  }
  if (shard.chunks.size() != expected.size()) {
    findings.add(key, 0, fmt::format("{} of {} chunks were read", shard.chunks.size(), expected.size()));
    return findings.take();
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (shard.chunks[i] == expected[i]) continue;
    const std::uint64_t begin = i * index.chunk_bytes;
    const std::uint64_t end = std::min(begin + index.chunk_bytes, index.file_bytes);
    findings.add(key, begin,
                 fmt::format("the XXH3-128 of its bytes {} to {} is {}, the sums say {}: {}", begin, end,
                             shard.chunks[i].hex(), expected[i].hex(), tensors_in(index, begin, end)));
  }
  return findings.take();
}

Result<std::vector<Damage>> verify_writer(const Receipt& expected, const Evidence& evidence) {
  Findings findings;
  verify_receipt(expected, evidence.receipt, findings);

  const std::string key = index_key(expected.save, expected.writer, expected.nonce);
  std::optional<Index> index;
  if (!evidence.index) {
    findings.missing(key);
  } else {
    auto opened = open_index(expected, *evidence.index);
    if (opened.is(Code::unsupported)) return std::move(opened).error().with(key);
    if (!findings.add_error(key, opened)) index = std::move(opened).value();
  }

  const std::string sums = sums_key(expected.save, expected.writer, expected.nonce);
  const std::string shard = shard_key(expected.save, expected.writer, expected.nonce);
  if (!evidence.sums) findings.missing(sums);
  if (!evidence.shard) findings.missing(shard);
  if (!index || !evidence.sums) return findings.take();
  const auto chunks = open_sums(expected, *index, *evidence.sums);
  if (!findings.add_error(sums, chunks) && evidence.shard)
    findings.add_all(verify_chunks(*index, chunks.value(), *evidence.shard));
  return findings.take();
}

}  // namespace unbroken
