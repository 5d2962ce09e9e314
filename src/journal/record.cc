#include "journal/record.h"

#include <fmt/format.h>

#include <cmath>

namespace unbroken {

namespace {

constexpr std::string_view kMagic = "unbroken-record-1";

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

// A metric is a number; JSON has none for the other three.
Json metric_to_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Result<double> metric_from_json(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::nan("");
  if (value == "Infinity") return HUGE_VAL;
  if (value == "-Infinity") return -HUGE_VAL;
  return Error(Code::corrupt, "a metric is not a number");
}

Json owner_to_json(const Owner& owner) {
  return {{"job", owner.job},       {"host", owner.host},
          {"boot", owner.boot_id},  {"pid_namespace", owner.pid_namespace},
          {"pid", owner.pid},       {"start_ticks", owner.start_ticks},
          {"device", owner.device}, {"inode", owner.inode}};
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
                    {"owner", owner_to_json(o.owner)}};
          },
          [](const Commit& c) -> Json {
            Json metrics = Json::object();
            for (const auto& [name, value] : c.metrics) metrics[name] = metric_to_json(value);
            return {{"save", to_json(c.save)},
                    {"manifest", c.manifest.hex()},
                    {"manifest_bytes", c.manifest_bytes},
                    {"state_bytes", c.state_bytes},
                    {"metrics", std::move(metrics)},
                    {"health", c.health},
                    {"tier", c.tier}};
          },
          [](const Abort& a) -> Json { return {{"save", to_json(a.save)}, {"why", a.why}}; },
          [](const Intent& i) -> Json { return {{"save", to_json(i.save)}}; },
          [](const Deleted& d) -> Json {
            Json saves = Json::array();
            for (const SaveId& save : d.saves) saves.push_back(to_json(save));
            return {{"saves", std::move(saves)}};
          },
          [](const Pin& p) -> Json { return {{"save", to_json(p.save)}, {"pin", p.pin.hex()}}; },
          [](const Unpin& u) -> Json { return {{"save", to_json(u.save)}, {"pin", u.pin.hex()}}; },
          [](const Quarantine& q) -> Json {
            return {{"save", to_json(q.save)}, {"tier", q.tier}, {"object", q.object},
                    {"expected", q.expected},  {"seen", q.seen}, {"host", q.host},
                    {"life", q.life.hex()}};
          },
          [](const Verified& v) -> Json { return {{"save", to_json(v.save)}, {"tier", v.tier}}; },
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
  g.run = f.text("run", 64);
  g.format = f.u32("format");
  for (const Json& feature : f.array("features", 64)) {
    if (!feature.is_string()) return Error(Code::corrupt, "GENESIS: a feature is not a text");
    g.features.push_back(feature.get<std::string>());
  }
  UNBROKEN_DO(f.end());
  if (g.format != 1)
    return Error(
        Code::unsupported,
        fmt::format("the run has format {}, this version reads format 1: use a newer unbroken", g.format));
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
  const Json& resume = f.any("resume");
  Fields w(f.object("owner"), "OPEN owner");
  o.owner = {w.text("job", 256), w.text("host", 256),  w.text("boot", 64), w.u64("pid_namespace"),
             w.u64("pid"),       w.u64("start_ticks"), w.u64("device"),    w.u64("inode")};
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
  c.health = f.text("health", 64);
  c.tier = f.text("tier", 64);
  const Json& metrics = f.object("metrics");
  UNBROKEN_DO(f.end());
  UNBROKEN_TRY(c.save, save_of(body));
  for (const auto& [name, value] : metrics.items()) {
    UNBROKEN_TRY(c.metrics[name], metric_from_json(value));
  }
  return Fact(std::move(c));
}

Result<Fact> quarantine_from(const Json& body) {
  Fields f(body, "QUARANTINE");
  Quarantine q;
  q.tier = f.text("tier", 64);
  q.object = f.text("object", 512);
  q.expected = f.text("expected", 512);
  q.seen = f.text("seen", 512);
  q.host = f.text("host", 256);
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

/// Types of the protocol that a later version writes and this one can safely read past.
constexpr std::string_view kReservedTypes[] = {"SUMMARY", "PROMOTED", "SEAL", "TAG", "UNTAG"};

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
      Abort a{save, f.text("why", 1024)};
      UNBROKEN_DO(f.end());
      return Fact(std::move(a));
    }
    if (type == "VERIFIED") {
      Verified v{save, f.text("tier", 64)};
      UNBROKEN_DO(f.end());
      return Fact(std::move(v));
    }
    const Nonce pin = f.nonce("pin");
    UNBROKEN_DO(f.end());
    return type == "PIN" ? Fact(Pin{save, pin}) : Fact(Unpin{save, pin});
  }
  bool is_known = false;
  for (const std::string_view reserved : kReservedTypes) is_known = is_known || type == reserved;
  if (is_critical && !is_known)
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
  out.digest = sha256(as_bytes(std::string_view(out.bytes).substr(0, out.bytes.find('\n'))));
  return out;
}

Result<DecodedRecord> decode_record(std::string_view bytes) {
  UNBROKEN_TRY(Sealed sealed,
               open_sealed_twice(bytes, {.bytes = kRecordBytesRead, .depth = 16, .nodes = 8192}));
  Fields f(sealed.value, "record");
  DecodedRecord out;
  if (f.text("magic", 64) != kMagic) f.fail("wrong magic");
  const std::string type = f.text("type", 64);
  const bool is_critical = f.boolean("critical");
  out.record.slot = f.u64("slot");
  out.record.writer = f.nonce("writer");
  out.record.previous = f.sha256("previous");
  const Json& at = f.any("at");
  const Json& body = f.object("body");
  UNBROKEN_DO(f.end());
  if (!at.is_number_integer()) return Error(Code::corrupt, "record: \"at\" is not a time");
  out.record.at_unix_ms = at.get<std::int64_t>();
  UNBROKEN_TRY(out.record.fact, fact_from(type, is_critical, body));
  out.digest = sealed.digest;
  out.is_repaired = sealed.is_repaired;
  return out;
}

}  // namespace unbroken
