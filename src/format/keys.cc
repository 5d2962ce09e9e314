#include "format/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace unbroken {

namespace {

using Kind = DataName::Kind;
constexpr std::string_view kShardStem = "shard-", kReceiptStem = "receipt-", kManifestStem = "manifest-";
constexpr std::string_view kManifestSuffix = ".json", kMetricsSuffix = ".jsonl";
constexpr std::array<std::pair<Kind, std::string_view>, 3> kSuffixes{
    {{Kind::shard, ".safetensors"}, {Kind::index, ".json"}, {Kind::sums, ".sums"}}};

std::string shard_object_key(const SaveId& save, std::uint32_t writer, Nonce nonce, Kind kind) {
  const auto suffix = std::find_if(kSuffixes.begin(), kSuffixes.end(),
                                   [&](const auto& known) { return known.first == kind; });
  return fmt::format("{}{}{:05}.{}{}", save_prefix(save), kShardStem, writer, nonce.hex(), suffix->second);
}

/// Digits with zeros in front, at least `width` of them: exactly what "{:0width}" prints.
std::optional<std::uint32_t> padded(std::string_view digits, std::size_t width) {
  if (digits.size() < width || (digits.size() > width && digits.front() == '0')) return std::nullopt;
  const auto value = parse_u64(trim_zeros(digits), UINT32_MAX);
  if (!value.ok()) return std::nullopt;
  return static_cast<std::uint32_t>(value.value());
}

bool take_front(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

bool take_back(std::string_view& text, std::string_view what) {
  if (!text.ends_with(what)) return false;
  text.remove_suffix(what.size());
  return true;
}

std::optional<DataName> shard_object_from(std::string_view name) {
  for (const auto& [kind, suffix] : kSuffixes) {
    std::string_view middle = name;
    if (!take_back(middle, suffix)) continue;
    const std::size_t dot = middle.find('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const auto writer = padded(middle.substr(0, dot), 5);
    const auto nonce = Nonce::from_hex(middle.substr(dot + 1));
    if (!writer || !nonce.ok()) return std::nullopt;
    return DataName{kind, *writer, nonce.value(), {}};
  }
  return std::nullopt;
}

}  // namespace

std::string metrics_key(std::uint32_t attempt) {
  return fmt::format("{}a{:04}{}", kMetricsPrefix, attempt, kMetricsSuffix);
}

std::string save_prefix(const SaveId& save) {
  return fmt::format("{}{}/", kDataPrefix, save.folder());
}

std::string shard_key(const SaveId& save, std::uint32_t writer, Nonce nonce) {
  return shard_object_key(save, writer, nonce, Kind::shard);
}

std::string index_key(const SaveId& save, std::uint32_t writer, Nonce nonce) {
  return shard_object_key(save, writer, nonce, Kind::index);
}

std::string sums_key(const SaveId& save, std::uint32_t writer, Nonce nonce) {
  return shard_object_key(save, writer, nonce, Kind::sums);
}

std::string receipt_key(const SaveId& save, std::uint32_t writer) {
  return fmt::format("{}{}{:05}", save_prefix(save), kReceiptStem, writer);
}

std::string manifest_key(const SaveId& save, const Sha256& content) {
  return fmt::format("{}{}{}{}", save_prefix(save), kManifestStem, content.hex().substr(0, 16),
                     kManifestSuffix);
}

std::optional<std::uint32_t> attempt_from_metrics_name(std::string_view name) {
  if (!take_front(name, "a") || !take_back(name, kMetricsSuffix)) return std::nullopt;
  return padded(name, 4);
}

std::optional<SaveId> save_from_name(std::string_view name) {
  const auto save = SaveId::from_folder(name);
  if (!save.ok()) return std::nullopt;
  return save.value();
}

std::optional<DataName> data_name_from(std::string_view name) {
  if (take_front(name, kShardStem)) return shard_object_from(name);
  if (take_front(name, kReceiptStem)) {
    const auto writer = padded(name, 5);
    if (!writer) return std::nullopt;
    return DataName{Kind::receipt, *writer, {}, {}};
  }
  if (take_front(name, kManifestStem) && take_back(name, kManifestSuffix) && Nonce::from_hex(name).ok())
    return DataName{Kind::manifest, 0, {}, std::string(name)};
  return std::nullopt;
}

}  // namespace unbroken
