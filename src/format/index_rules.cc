#include "format/index_rules.h"

#include "format/sums.h"

#include <fmt/format.h>

#include <bit>
#include <unordered_set>

namespace unbroken {

namespace {

constexpr std::uint64_t kChunkBytesMin = 4096, kChunkBytesMax = std::uint64_t{1} << 30;

Error corrupt(std::string why) {
  return Error(Code::corrupt, "index: " + std::move(why));
}

Result<> check_frame(const Index& index) {
  if (index.writer >= index.writers)
    return corrupt(fmt::format("writer {} of {}", index.writer, index.writers));
  if (!std::has_single_bit(index.chunk_bytes) || index.chunk_bytes < kChunkBytesMin ||
      index.chunk_bytes > kChunkBytesMax)
    return corrupt(fmt::format("chunks of {} bytes", index.chunk_bytes));
  if (chunk_count(index.file_bytes, index.chunk_bytes) > kSumsBytesMax / Xxh128::kBytes)
    return corrupt(fmt::format("{} bytes in chunks of {}: too many", index.file_bytes, index.chunk_bytes));
  if (index.data_offset <= 8 || index.data_offset > index.file_bytes || index.file_bytes > INT64_MAX)
    return corrupt(fmt::format("data begins at {} of {} bytes", index.data_offset, index.file_bytes));
  return Done{};
}

/// The shape whose bytes are in this shard.
Result<Shape> held_shape(const IndexedTensor& tensor) {
  if (!tensor.box) return tensor.shape;
  const Box& box = *tensor.box;
  if (box.begin.size() != tensor.shape.size() || box.end.size() != tensor.shape.size())
    return corrupt(fmt::format("the box of \"{}\" has another rank", tensor.name));
  Shape held;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (box.begin[i] > box.end[i] || box.end[i] > tensor.shape[i])
      return corrupt(fmt::format("the box of \"{}\" is not in its shape", tensor.name));
    held.push_back(box.end[i] - box.begin[i]);
  }
  return held;
}

Result<> check_tensor(const IndexedTensor& tensor) {
  if (auto fine = check_name(tensor.name); !fine.ok()) return corrupt(fine.error().what());
  UNBROKEN_TRY(const Shape held, held_shape(tensor));
  if (stored_form(tensor.dtype, held).shape.size() > kRankMax)
    return corrupt(fmt::format("\"{}\" has too many axes", tensor.name));
  const auto whole = byte_size(tensor.dtype, tensor.shape);
  const auto bytes = byte_size(tensor.dtype, held);
  if (!whole.ok()) return corrupt(fmt::format("\"{}\": {}", tensor.name, whole.error().what()));
  if (!bytes.ok()) return corrupt(fmt::format("\"{}\": {}", tensor.name, bytes.error().what()));
  if (bytes.value() != tensor.bytes)
    return corrupt(fmt::format("\"{}\" is {} of {} bytes but has {}", tensor.name,
                               describe(tensor.dtype, held), bytes.value(), tensor.bytes));
  return Done{};
}

using Names = std::unordered_set<std::string_view>;

Result<Names> check_tensors(const Index& index) {
  Names names;
  names.reserve(index.tensors.size() + index.aliases.size());
  std::uint64_t at = index.data_offset;
  for (const IndexedTensor& tensor : index.tensors) {
    UNBROKEN_DO(check_tensor(tensor));
    if (!names.insert(tensor.name).second) return corrupt(fmt::format("\"{}\" stands twice", tensor.name));
    if (tensor.offset != at)
      return corrupt(fmt::format("\"{}\" begins at {}, expected {}", tensor.name, tensor.offset, at));
    if (tensor.bytes > index.file_bytes - at)
      return corrupt(fmt::format("\"{}\" ends beyond the file", tensor.name));
    at += tensor.bytes;
  }
  if (at != index.file_bytes)
    return corrupt(fmt::format("the tensors end at {} of {} bytes", at, index.file_bytes));
  return names;
}

Result<> check_aliases(const Index& index, Names& names) {
  const Names tensors = names;
  const std::string* last = nullptr;
  for (const Alias& alias : index.aliases) {
    if (auto fine = check_name(alias.name); !fine.ok()) return corrupt(fine.error().what());
    if (last && alias.name <= *last) return corrupt("aliases are not sorted");
    last = &alias.name;
    if (!names.insert(alias.name).second) return corrupt(fmt::format("\"{}\" stands twice", alias.name));
    if (!tensors.contains(alias.of))
      return corrupt(fmt::format("\"{}\" is an alias of \"{}\", which is not there", alias.name, alias.of));
  }
  return Done{};
}

/// Several writers share one tree, and it may name what another one holds.
Result<> check_tree(const Index& index, const Names& names) {
  if (index.writers > 1) return Done{};
  Result<> found = Done{};
  each_tensor(index.tree, [&](const TensorRef& ref) {
    if (found.ok() && !names.contains(ref.name))
      found = corrupt(fmt::format("the tree names \"{}\", which is not there", ref.name));
  });
  return found;
}

}  // namespace

Result<> check_index(const Index& index) {
  UNBROKEN_DO(check_frame(index));
  UNBROKEN_TRY(Names names, check_tensors(index));
  UNBROKEN_DO(check_aliases(index, names));
  return check_tree(index, names);
}

}  // namespace unbroken
