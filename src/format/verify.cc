#include "format/verify.h"

#include <fmt/format.h>

#include <algorithm>
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
  if (shard.bytes != index.file_bytes)
    return {{key, std::min(shard.bytes, index.file_bytes),
             fmt::format("has {} bytes, the index says {}", shard.bytes, index.file_bytes)}};
  if (shard.chunks.size() != expected.size())
    return {{key, 0, fmt::format("{} of {} chunks were read", shard.chunks.size(), expected.size())}};
  std::vector<Damage> found;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (shard.chunks[i] == expected[i]) continue;
    const std::uint64_t begin = i * index.chunk_bytes;
    const std::uint64_t end = std::min(begin + index.chunk_bytes, index.file_bytes);
    found.push_back({key, begin,
                     fmt::format("the XXH3-128 of its bytes {} to {} is {}, the sums say {}: {}", begin, end,
                                 shard.chunks[i].hex(), expected[i].hex(), tensors_in(index, begin, end))});
  }
  if (!found.empty() || shard.head.empty()) return found;
  // The bytes are as they were written; but other readers believe the header.
  if (const auto fits = check_header(index, as_bytes(shard.head)); !fits.ok())
    found.push_back({key, 0, fits.error().what()});
  return found;
}

std::string WriterCheck::receipt_name() const {
  return receipt_key(expected_.save, expected_.writer);
}
std::string WriterCheck::index_name() const {
  return index_key(expected_.save, expected_.writer, expected_.nonce);
}
std::string WriterCheck::sums_name() const {
  return sums_key(expected_.save, expected_.writer, expected_.nonce);
}
std::string WriterCheck::shard_name() const {
  return shard_key(expected_.save, expected_.writer, expected_.nonce);
}
std::uint64_t WriterCheck::sums_bytes_max() const {
  return std::min(expected_.sums.bytes, kSumsBytesMax);
}

bool WriterCheck::is_there(const std::string& object, const Result<>& look) {
  if (!look.ok()) damage.push_back({object, 0, look.is(Code::not_found) ? "missing" : look.error().what()});
  return look.ok();
}

namespace {

template <class T>
Result<> outcome(const Result<T>& look) {
  if (!look.ok()) return look.error();
  return Done{};
}

}  // namespace

void WriterCheck::on_receipt(const Look& look) {
  if (!is_there(receipt_name(), outcome(look))) return;
  const auto seen = decode_receipt(look.value());
  if (!is_there(receipt_name(), outcome(seen))) return;
  if (!(seen.value() == expected_))
    damage.push_back({receipt_name(), 0, "says something else than the manifest"});
}

Result<> WriterCheck::on_index(const Look& look) {
  if (!is_there(index_name(), outcome(look))) return Done{};
  auto opened = open_index(expected_, look.value());
  if (opened.is(Code::unsupported)) return std::move(opened).error().with(index_name());
  if (is_there(index_name(), outcome(opened))) index = std::move(opened).value();
  return Done{};
}

void WriterCheck::on_sums(const Look& look) {
  if (!is_there(sums_name(), outcome(look)) || !index) return;
  auto opened = open_sums(expected_, *index, look.value());
  if (is_there(sums_name(), outcome(opened))) chunks = std::move(opened).value();
}

void WriterCheck::on_shard(const Result<ShardEvidence>& look) {
  if (!is_there(shard_name(), outcome(look))) return;
  const ShardEvidence& shard = look.value();
  if (index && chunks) {
    for (Damage& found : verify_chunks(*index, *chunks, shard)) damage.push_back(std::move(found));
  } else if (shard.bytes != expected_.shard_bytes) {
    damage.push_back({shard_name(), std::min(shard.bytes, expected_.shard_bytes),
                      fmt::format("has {} bytes, the receipt says {}", shard.bytes, expected_.shard_bytes)});
  }
}

}  // namespace unbroken
