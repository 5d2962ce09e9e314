#include "journal/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/newer.h"
#include "journal/facts.h"

namespace unbroken {

namespace {

constexpr std::string_view kMagicStem = "unbroken-record-";
constexpr std::string_view kMagic = "unbroken-record-1";

/// Of the metrics of one COMMIT as JSON: two copies of it and of the rest stay below 4 KiB.
constexpr std::size_t kMetricsBytes = 1200;

}  // namespace

Result<EncodedRecord> encode_record(const Record& record) {
  const auto* reserved = std::get_if<Reserved>(&record.fact);
  // Every type of this version is one that a reader must understand to fold the journal, but for a fold.
  const bool is_critical =
      reserved != nullptr ? reserved->is_critical : !std::holds_alternative<Summary>(record.fact);
  const Json value = {
      {"magic", kMagic},         {"type", type_of(record.fact)},  {"critical", is_critical},
      {"slot", record.slot},     {"writer", record.writer.hex()}, {"previous", record.previous.hex()},
      {"at", record.at_unix_ms}, {"body", body_of(record.fact)}};
  EncodedRecord out;
  UNBROKEN_TRY(out.bytes, seal_twice(value));
  if (out.bytes.size() > kRecordBytesWritten)
    return Error(Code::bad_argument,
                 fmt::format("a {} record of {} bytes: at most {} are written", type_of(record.fact),
                             out.bytes.size(), kRecordBytesWritten));
  // A slot is for ever: a record that cannot be read back would end the journal.
  auto back = decode_record(out.bytes);
  if (!back.ok() || back.value().record.fact.index() != record.fact.index())
    return Error(Code::bad_argument,
                 fmt::format("a {} record that could not be read back: {}", type_of(record.fact),
                             back.ok() ? "another type" : back.error().what()));
  out.digest = back.value().digest;
  out.record = std::move(back).value().record;
  return out;
}

Result<DecodedRecord> decode_record(std::string_view bytes) {
  if (bytes.size() > kRecordBytesRead)
    return Error(Code::corrupt,
                 fmt::format("{} bytes: a record has at most {}", bytes.size(), kRecordBytesRead));
  UNBROKEN_TRY(Sealed sealed,
               open_sealed_twice(bytes, {.bytes = kRecordBytesRead, .depth = 16, .nodes = 8192}));
  Fields f(sealed.value, "record");
  const std::string magic = f.text("magic", kWordBytes);
  if (magic != kMagic && magic.starts_with(kMagicStem))
    return written_by_newer(fmt::format("it is of version \"{}\", this one reads \"{}\"", magic, kMagic));
  if (magic != kMagic) f.fail("wrong magic");
  const std::string type = f.text("type", kWordBytes);
  const bool is_critical = f.boolean("critical");
  DecodedRecord out;
  out.record.slot = f.u64("slot");
  out.record.writer = f.nonce("writer");
  out.record.previous = f.sha256("previous");
  const Json& at = f.any("at");
  const Json& body = f.object("body");
  UNBROKEN_DO(f.end());
  if (!at.is_number_integer() || (at.is_number_unsigned() && at.get<std::uint64_t>() > INT64_MAX))
    return Error(Code::corrupt, "record: \"at\" is not a time");
  out.record.at_unix_ms = at.get<std::int64_t>();
  UNBROKEN_TRY(out.record.fact, fact_from(type, is_critical, body));
  out.digest = sealed.digest;
  out.is_repaired = sealed.is_repaired;
  return out;
}

std::size_t keep_metrics_that_fit(Commit& commit, const std::string& first) {
  std::map<std::string, double> kept;
  std::size_t bytes = 2;
  for (const std::string& tag : commit.tags) bytes += tag.size() + 4;
  const auto keep = [&](const std::string& name, double value) {
    if (kept.contains(name)) return;
    const Json entry = {{name, json_number(value)}};
    const auto text = canonical_json(entry);
    if (!text.ok() || bytes + text.value().size() > kMetricsBytes) return;
    bytes += text.value().size();
    kept.emplace(name, value);
  };
  if (const auto it = commit.metrics.find(first); it != commit.metrics.end()) keep(it->first, it->second);
  for (const auto& [name, value] : commit.metrics) keep(name, value);
  const std::size_t dropped = commit.metrics.size() - kept.size();
  commit.metrics = std::move(kept);
  return dropped;
}

bool is_tag_name(std::string_view name) {
  const auto is_fit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kWordBytes && std::all_of(name.begin(), name.end(), is_fit);
}

}  // namespace unbroken
