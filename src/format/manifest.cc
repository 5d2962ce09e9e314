#include "format/manifest.h"

#include <fmt/format.h>

#include "format/features.h"
#include "format/members.h"

namespace unbroken {

namespace {

constexpr std::size_t kTextBytesMax = 16384;      ///< of one provenance value
constexpr std::size_t kDetailBytesMax = 1 << 16;  ///< of details
constexpr std::size_t kDetailDepthMax = 16;
constexpr std::size_t kRowMembers = 7;

/// What the receipts do not share, in columns: at many writers this is most of the manifest.
Json row_of(const Receipt& r) {
  return Json::array({r.nonce.hex(), r.life.hex(), r.shard_bytes, r.index.bytes, r.index.digest.hex(),
                      r.sums.bytes, r.sums.digest.hex()});
}

template <class T>
Result<T> hex_cell(const Json& cell, Result<T> (*parse)(std::string_view)) {
  if (!cell.is_string()) return Error(Code::corrupt, "manifest: a receipt's cell is not a text");
  auto value = parse(cell.get_ref<const std::string&>());
  if (!value.ok()) return Error(Code::corrupt, "manifest: a receipt: " + value.error().what());
  return value;
}

Result<std::uint64_t> size_cell(const Json& cell) {
  if (!cell.is_number_unsigned() || cell.get<std::uint64_t>() > INT64_MAX)
    return Error(Code::corrupt, "manifest: a receipt's cell is not a size");
  return cell.get<std::uint64_t>();
}

Result<Receipt> receipt_from_row(const Json& row, const Manifest& manifest, std::size_t writer) {
  if (!row.is_array() || row.size() != kRowMembers)
    return Error(Code::corrupt, fmt::format("manifest: receipt {} is not a row of {}", writer, kRowMembers));
  Receipt r;
  r.save = manifest.save;
  r.open = manifest.open;
  r.resume = manifest.resume;
  r.writer = static_cast<std::uint32_t>(writer);
  UNBROKEN_TRY(r.nonce, hex_cell(row[0], &Nonce::from_hex));
  UNBROKEN_TRY(r.life, hex_cell(row[1], &Nonce::from_hex));
  UNBROKEN_TRY(r.shard_bytes, size_cell(row[2]));
  UNBROKEN_TRY(r.index.bytes, size_cell(row[3]));
  UNBROKEN_TRY(r.index.digest, hex_cell(row[4], &Xxh128::from_hex));
  UNBROKEN_TRY(r.sums.bytes, size_cell(row[5]));
  UNBROKEN_TRY(r.sums.digest, hex_cell(row[6], &Xxh128::from_hex));
  return r;
}

Result<> check_caps(const Manifest& m) {
  const auto refuse = [](std::string why) { return Error(Code::corrupt, "manifest: " + std::move(why)); };
  if (m.world == 0 || m.receipts.empty()) return refuse("there is no rank or no receipt");
  if (m.provenance.size() > kManifestTextsMax || m.metrics.size() > kManifestTextsMax)
    return refuse(fmt::format("more than {} entries of provenance or metrics", kManifestTextsMax));
  for (const auto& [key, value] : m.provenance)
    if (key.size() > kManifestKeyBytesMax || value.size() > kTextBytesMax)
      return refuse("provenance is too long");
  for (const auto& [key, value] : m.metrics)
    if (key.size() > kManifestKeyBytesMax) return refuse("the name of a metric is too long");
  if (m.health != "ok" && m.health != "non-finite") return refuse("health is neither ok nor non-finite");
  if (!m.details.is_object()) return refuse("details are not an object");
  UNBROKEN_TRY(const std::string details, canonical_json(m.details));
  const JsonLimits limits{.bytes = kDetailBytesMax, .depth = kDetailDepthMax, .nodes = kDetailBytesMax};
  if (auto read = parse_json(details, limits); !read.ok()) return refuse("details: " + read.error().what());
  return Done{};
}

Result<> check_receipts(const Manifest& m) {
  for (std::size_t i = 0; i < m.receipts.size(); ++i) {
    const Receipt& r = m.receipts[i];
    const bool fits = r.save == m.save && r.open == m.open && r.resume == m.resume && r.writer == i;
    if (!fits)
      return Error(Code::bad_argument,
                   fmt::format("receipt {} of {} does not belong to {}", i, r.save.name(), m.save.name()));
  }
  return Done{};
}

}  // namespace

Result<SealedManifest> encode_manifest(const Manifest& m) {
  UNBROKEN_DO(check_receipts(m));
  if (auto fine = check_caps(m); !fine.ok()) return Error(Code::bad_argument, fine.error().what());
  Json rows = Json::array();
  for (const Receipt& receipt : m.receipts) rows.push_back(row_of(receipt));
  Json metrics = Json::object();
  for (const auto& [name, value] : m.metrics) metrics[name] = json_number(value);
  Json out{{"save", m.save.name()},       {"world", m.world},
           {"open", member_of(m.open)},   {"resume", member_of(m.resume)},
           {"receipts", std::move(rows)}, {"provenance", Json(m.provenance)},
           {"details", m.details},        {"metrics", std::move(metrics)},
           {"health", m.health}};
  put_features(out);
  SealedManifest sealed;
  UNBROKEN_TRY(sealed.text, seal(out));
  if (sealed.text.size() > kManifestBytesMax)
    return Error(Code::bad_argument, fmt::format("a manifest of {} bytes", sealed.text.size()));
  sealed.sha256 = sha256(as_bytes(std::string_view(sealed.text).substr(0, sealed.text.find('\n'))));
  return sealed;
}

Result<Manifest> decode_manifest(std::string_view text, const Sha256& expected) {
  UNBROKEN_TRY(const Sealed sealed,
               open_sealed(text, {.bytes = kManifestBytesMax, .depth = kDetailDepthMax + 4}));
  if (sealed.digest != expected)
    return Error(Code::corrupt, fmt::format("manifest: its SHA-256 is {}, the COMMIT record says {}",
                                            sealed.digest.hex(), expected.hex()));
  const Json& value = sealed.value;
  UNBROKEN_DO(check_features(value, "manifest"));
  Fields f(value, "manifest");
  Manifest m;
  m.save = save_member(f, "save");
  m.world = f.u32("world");
  m.open = open_member(f, "open");
  m.resume = optional_save_member(f, "resume");
  m.details = f.object("details");
  m.health = f.text("health", 64);
  const Json& rows = f.array("receipts", UINT32_MAX);
  const Json& provenance = f.object("provenance");
  const Json& metrics = f.object("metrics");
  UNBROKEN_DO(f.end());
  m.receipts.reserve(rows.size());
  for (const Json& row : rows) {
    UNBROKEN_TRY(Receipt receipt, receipt_from_row(row, m, m.receipts.size()));
    m.receipts.push_back(std::move(receipt));
  }
  for (const auto& [key, entry] : provenance.items()) {
    if (!entry.is_string()) return Error(Code::corrupt, "manifest: provenance is not a text");
    m.provenance[key] = entry.get<std::string>();
  }
  for (const auto& [key, entry] : metrics.items()) {
    auto number = number_from_json(entry);
    if (!number.ok()) return std::move(number).error().with("manifest: a metric");
    m.metrics[key] = number.value();
  }
  UNBROKEN_DO(check_caps(m));
  return m;
}

}  // namespace unbroken
