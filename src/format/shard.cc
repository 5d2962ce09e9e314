#include "format/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "state/json_text.h"
#include "state/names.h"

namespace unbroken {

namespace {

constexpr std::string_view kMetadata = R"({"__metadata__":{"format":"pt","unbroken":"1"})";

Result<> check_specs(std::span<const TensorSpec> tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorSpec& tensor : tensors) {
    UNBROKEN_DO(check_name(tensor.name));
    names.emplace_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return Error(Code::bad_argument, fmt::format("two tensors have the name \"{}\"", *twice));
  return Done{};
}

/// Larger stored elements first: every tensor then starts at a multiple of its element size.
std::vector<std::uint32_t> file_order(std::span<const StoredForm> forms) {
  std::vector<std::uint32_t> order(forms.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const unsigned bits_a = bits_of(forms[a].dtype), bits_b = bits_of(forms[b].dtype);
    return bits_a != bits_b ? bits_a > bits_b : a < b;
  });
  return order;
}

}  // namespace

Result<ShardPlan> plan_shard(std::span<const TensorSpec> tensors) {
  if (tensors.size() > UINT32_MAX) return Error(Code::bad_argument, "too many tensors");
  UNBROKEN_DO(check_specs(tensors));
  ShardPlan plan;
  std::vector<StoredForm> forms;
  forms.reserve(tensors.size());
  for (const TensorSpec& tensor : tensors) {
    forms.push_back(stored_form(tensor.dtype, tensor.shape));
    if (forms.back().shape.size() > kRankMax)
      return Error(Code::bad_argument, fmt::format("\"{}\" has {} axes, at most {} are written", tensor.name,
                                                   forms.back().shape.size(), kRankMax));
    auto bytes = byte_size(tensor.dtype, tensor.shape);
    if (!bytes.ok()) return std::move(bytes).error().with(fmt::format("\"{}\"", tensor.name));
    plan.bytes.push_back(bytes.value());
  }
  plan.order = file_order(forms);
  plan.offsets.resize(tensors.size());

  std::string& header = plan.header;
  header.assign(8, '\0');
  header += kMetadata;
  std::uint64_t data_bytes = 0;
  for (const std::uint32_t i : plan.order) {
    const std::uint64_t begin = data_bytes;
    if (__builtin_add_overflow(begin, plan.bytes[i], &data_bytes) || data_bytes > INT64_MAX)
      return Error(Code::bad_argument, "the tensors have too many bytes for one file");
    plan.offsets[i] = begin;
    header += ',';
    put_text(header, tensors[i].name);
    header += R"(:{"dtype":")";
    header += name_of(forms[i].dtype);
    header += R"(","shape":)";
    put_numbers(header, forms[i].shape);
    header += R"(,"data_offsets":)";
    const std::uint64_t range[] = {begin, data_bytes};
    put_numbers(header, range);
    header += '}';
    if (header.size() > kHeaderBytesMax) break;
  }
  header += '}';
  header.resize((header.size() + kPageBytes - 1) / kPageBytes * kPageBytes, ' ');
  const std::uint64_t json_bytes = header.size() - 8;
  if (json_bytes > kHeaderBytesMax)
    return Error(Code::bad_argument, fmt::format("{} tensors need a header of more than {} bytes",
                                                 tensors.size(), kHeaderBytesMax));
  for (unsigned i = 0; i < 8; ++i) header[i] = static_cast<char>(json_bytes >> (8 * i) & 255);
  plan.data_offset = header.size();
  plan.file_bytes = plan.data_offset + data_bytes;
  for (std::uint64_t& offset : plan.offsets) offset += plan.data_offset;
  return plan;
}

}  // namespace unbroken
