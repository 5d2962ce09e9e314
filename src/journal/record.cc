#include "journal/record.h"

#include <fmt/format.h>

namespace unbroken {

namespace {

constexpr std::string_view kMagicStem = "unbroken-record-";
constexpr std::string_view kMagic = "unbroken-record-1";

// What a reader accepts; a writer of text for people cuts to it.
constexpr std::size_t kWordBytes = 64, kNameBytes = 256, kWhyBytes = 1024;
/// Of the metrics of one COMMIT as JSON: two copies of it and of the rest stay below 4 KiB.
constexpr std::size_t kMetricsBytes = 1200;

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

// Text for people never makes a record unwritable: what is not UTF-8 is replaced, and what is too long as
// JSON (an escape counts up to six) is cut between two characters.
std::string shown(const std::string& text, std::size_t bytes_max) {
  std::string out =
      Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
  for (std::size_t bytes; (bytes = Json(out).dump().size() - 2) > bytes_max;) {
    std::size_t end = out.size() - (bytes - bytes_max + 5) / 6;
    while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;
    out.resize(end);
  }
  return out;
}

Json owner_to_json(const Owner& owner) {
  return {{"job", shown(owner.job, kNameBytes)},
          {"host", shown(owner.host, kNameBytes)},
          {"boot", shown(owner.boot_id, kWordBytes)},
          {"pid_namespace", owner.pid_namespace},
          {"pid", owner.pid},
          {"start_ticks", owner.start_ticks},
          {"device", owner.device},
          {"inode", owner.inode}};
}

Json metrics_to_json(const std::map<std::string, double>& metrics) {
  Json out = Json::object();
  for (const auto& [name, value] : metrics) out[name] = json_number(value);
  return out;
}

Json body_of(const Fact& fact) {
  return std::visit(
      Overloaded{
          [](const Genesis& g) -> Json {
            return {{"run", g.run}, {"format", g.format}, {"features", g.features}};
          },
          [](const Open& o) -> Json {
            return {{"attempt", o.attempt},
                    {"world", o.world},
                    {"resume", o.resume ? to_json(*o.resume) : Json()},
                    {"life", o.life.hex()},
                    {"asked", shown(o.asked, kNameBytes)},
                    {"owner", owner_to_json(o.owner)}};
          },
          [](const Commit& c) -> Json {
            return {{"save", to_json(c.save)},
                    {"manifest", c.manifest.hex()},
                    {"manifest_bytes", c.manifest_bytes},
                    {"state_bytes", c.state_bytes},
                    {"metrics", metrics_to_json(c.metrics)},
                    {"health", c.health},
                    {"tier", c.tier}};
          },
          [](const Abort& a) -> Json {
            return {{"save", to_json(a.save)}, {"why", shown(a.why, kWhyBytes)}};
          },
          [](const Intent& i) -> Json { return {{"save", to_json(i.save)}}; },
          [](const Deleted& d) -> Json {
            Json saves = Json::array();
            for (const SaveId& save : d.saves) saves.push_back(to_json(save));
            return {{"saves", std::move(saves)}};
          },
          [](const Pin& p) -> Json { return {{"save", to_json(p.save)}, {"pin", p.pin.hex()}}; },
          [](const Unpin& u) -> Json { return {{"save", to_json(u.save)}, {"pin", u.pin.hex()}}; },
          [](const Quarantine& q) -> Json {
            return {{"save", to_json(q.save)},
                    {"tier", q.tier},
                    {"object", shown(q.object, kNameBytes)},
                    {"expected", shown(q.expected, kNameBytes)},
                    {"seen", shown(q.seen, kNameBytes)},
                    {"host", shown(q.host, kNameBytes)},
                    {"life", q.life.hex()}};
          },
          [](const Verified& v) -> Json {
            return {{"save", to_json(v.save)}, {"tier", v.tier}, {"host", shown(v.host, kNameBytes)}};
          },
          [](const Policy& p) -> Json {
            return {{"keep_last", p.keep_last}, {"verified_min", p.verified_min}};
          },
          [](const Void& v) -> Json { return {{"slot", v.slot}, {"seen", v.seen.hex()}}; },
          [](const Reserved& r) -> Json { return r.body; },
      },
      fact);
}

Result<SaveId> save_of(const Json& body) {
  const auto it = body.find("save");
  if (it == body.end()) return Error(Code::corrupt, "\"save\" is missing");
  return save_id_from_json(*it);
}

Result<Fact> genesis_from(const Json& body) {
  Fields f(body, "GENESIS");
  Genesis g;
  // The version comes first: what else a later one holds need not look like anything known here.
  g.format = f.u32("format");
  UNBROKEN_DO(f.end());
  if (g.format != 1)
    return Error(
        Code::unsupported,
        fmt::format("the run has format {}, this version reads format 1: use a newer unbroken", g.format));
  g.run = f.text("run", kWordBytes);
  for (const Json& feature : f.array("features", 64)) {
    if (!feature.is_string()) return Error(Code::corrupt, "GENESIS: a feature is not a text");
    g.features.push_back(feature.get<std::string>());
  }
  UNBROKEN_DO(f.end());
  if (!g.features.empty())
    return Error(
        Code::unsupported,
        fmt::format("the run needs feature \"{}\", which this version does not know: use a newer unbroken",
                    g.features.front()));
  return Fact(std::move(g));
}

Result<Fact> open_from(const Json& body) {
  Fields f(body, "OPEN");
  Open o;
  o.attempt = f.u32("attempt");
  o.world = f.u32("world");
  o.life = f.nonce("life");
  o.asked = f.text("asked", kNameBytes);
  const Json& resume = f.any("resume");
  Fields w(f.object("owner"), "OPEN owner");
  o.owner = {w.text("job", kNameBytes),
             w.text("host", kNameBytes),
             w.text("boot", kWordBytes),
             w.u64("pid_namespace"),
             w.u64("pid"),
             w.u64("start_ticks"),
             w.u64("device"),
             w.u64("inode")};
  UNBROKEN_DO(f.end());
  UNBROKEN_DO(w.end());
  if (!resume.is_null()) {
    UNBROKEN_TRY(o.resume, save_id_from_json(resume));
  }
  if (o.attempt == 0 || o.world == 0) return Error(Code::corrupt, "OPEN: attempt and world count from 1");
  return Fact(std::move(o));
}

Result<Fact> commit_from(const Json& body) {
  Fields f(body, "COMMIT");
  Commit c;
  c.manifest = f.sha256("manifest");
  c.manifest_bytes = f.u64("manifest_bytes");
  c.state_bytes = f.u64("state_bytes");
  c.health = f.text("health", kWordBytes);
  c.tier = f.text("tier", kWordBytes);
  const Json& metrics = f.object("metrics");
  UNBROKEN_DO(f.end());
  UNBROKEN_TRY(c.save, save_of(body));
  for (const auto& [name, value] : metrics.items()) {
    auto number = number_from_json(value);
    if (!number.ok()) return std::move(number).error().with("COMMIT: a metric");
    c.metrics[name] = number.value();
  }
  return Fact(std::move(c));
}

Result<Fact> quarantine_from(const Json& body) {
  Fields f(body, "QUARANTINE");
  Quarantine q;
  q.tier = f.text("tier", kWordBytes);
  q.object = f.text("object", kNameBytes);
  q.expected = f.text("expected", kNameBytes);
  q.seen = f.text("seen", kNameBytes);
  q.host = f.text("host", kNameBytes);
  q.life = f.nonce("life");
  UNBROKEN_DO(f.end());
  UNBROKEN_TRY(q.save, save_of(body));
  return Fact(std::move(q));
}

Result<Fact> deleted_from(const Json& body) {
  Fields f(body, "DELETED");
  Deleted d;
  for (const Json& save : f.array("saves", 1024)) {
    UNBROKEN_TRY(const SaveId id, save_id_from_json(save));
    d.saves.push_back(id);
  }
  UNBROKEN_DO(f.end());
  return Fact(std::move(d));
}

Result<Fact> fact_from(const std::string& type, bool is_critical, const Json& body) {
  if (type == "GENESIS") return genesis_from(body);
  if (type == "OPEN") return open_from(body);
  if (type == "COMMIT") return commit_from(body);
  if (type == "QUARANTINE") return quarantine_from(body);
  if (type == "DELETED") return deleted_from(body);
  Fields f(body, type);
  if (type == "POLICY") {
    const Policy p{f.u32("keep_last"), f.u32("verified_min")};
    UNBROKEN_DO(f.end());
    if (p.keep_last == 0 || p.verified_min == 0) return Error(Code::corrupt, "POLICY counts from 1");
    return Fact(p);
  }
  if (type == "VOID") {
    const Void v{f.u64("slot"), f.sha256("seen")};
    UNBROKEN_DO(f.end());
    return Fact(v);
  }
  const bool has_save =
      type == "ABORT" || type == "INTENT" || type == "PIN" || type == "UNPIN" || type == "VERIFIED";
  if (has_save) {
    UNBROKEN_TRY(const SaveId save, save_of(body));
    if (type == "INTENT") return Fact(Intent{save});
    if (type == "ABORT") {
      Abort a{save, f.text("why", kWhyBytes)};
      UNBROKEN_DO(f.end());
      return Fact(std::move(a));
    }
    if (type == "VERIFIED") {
      Verified v{save, f.text("tier", kWordBytes), f.text("host", kNameBytes)};
      UNBROKEN_DO(f.end());
      return Fact(std::move(v));
    }
    const Nonce pin = f.nonce("pin");
    UNBROKEN_DO(f.end());
    return type == "PIN" ? Fact(Pin{save, pin}) : Fact(Unpin{save, pin});
  }
  if (is_critical && type != "SEAL")
    return Error(Code::unsupported,
                 fmt::format("record type {} is critical and not known here: use a newer unbroken", type));
  return Fact(Reserved{type, is_critical, body});
}

}  // namespace

std::string_view type_of(const Fact& fact) {
  return std::visit(Overloaded{
                        [](const Genesis&) -> std::string_view { return "GENESIS"; },
                        [](const Open&) -> std::string_view { return "OPEN"; },
                        [](const Commit&) -> std::string_view { return "COMMIT"; },
                        [](const Abort&) -> std::string_view { return "ABORT"; },
                        [](const Intent&) -> std::string_view { return "INTENT"; },
                        [](const Deleted&) -> std::string_view { return "DELETED"; },
                        [](const Pin&) -> std::string_view { return "PIN"; },
                        [](const Unpin&) -> std::string_view { return "UNPIN"; },
                        [](const Quarantine&) -> std::string_view { return "QUARANTINE"; },
                        [](const Verified&) -> std::string_view { return "VERIFIED"; },
                        [](const Policy&) -> std::string_view { return "POLICY"; },
                        [](const Void&) -> std::string_view { return "VOID"; },
                        [](const Reserved& r) -> std::string_view { return r.type; },
                    },
                    fact);
}

Result<EncodedRecord> encode_record(const Record& record) {
  const auto* reserved = std::get_if<Reserved>(&record.fact);
  // Every type of this version is one that a reader must understand to fold the journal.
  const bool is_critical = reserved == nullptr || reserved->is_critical;
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
    return Error(
        Code::unsupported,
        fmt::format("it is of version \"{}\", this one reads \"{}\": use a newer unbroken", magic, kMagic));
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

std::size_t keep_metrics_that_fit(Commit& commit) {
  std::size_t bytes = 2, dropped = 0;
  for (auto it = commit.metrics.begin(); it != commit.metrics.end();) {
    const Json entry = {{it->first, json_number(it->second)}};
    const auto text = canonical_json(entry);
    const bool is_kept = text.ok() && bytes + text.value().size() <= kMetricsBytes;
    if (is_kept) bytes += text.value().size();
    dropped += is_kept ? 0 : 1;
    it = is_kept ? std::next(it) : commit.metrics.erase(it);
  }
  return dropped;
}

}  // namespace unbroken
