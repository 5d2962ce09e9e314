#include "journal/facts.h"

#include <fmt/format.h>

#include <array>
#include <type_traits>
#include <utility>

#include "base/newer.h"

namespace unbroken {

namespace {

/// As many as the facts that have a body of our own; Reserved is the last alternative and has none.
constexpr std::size_t kTypes = std::variant_size_v<Fact> - 1;
constexpr std::array<std::string_view, kTypes> kNames{"GENESIS", "OPEN", "COMMIT", "ABORT",      "INTENT",
                                                      "DELETED", "PIN",  "UNPIN",  "QUARANTINE", "VERIFIED",
                                                      "POLICY",  "VOID", "TAG",    "UNTAG",      "SUMMARY"};
static_assert(std::is_same_v<std::variant_alternative_t<kTypes, Fact>, Reserved>);

constexpr std::string_view kMin = "min", kMax = "max";  // of a best

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

class Writer {
 public:
  Writer(Json& out, std::string_view) : out_(out) { out_ = Json::object(); }
  template <class T>
  void number(const char* key, const T& value) {
    out_[key] = value;
  }
  template <class T>
  void hex(const char* key, const T& value) {
    out_[key] = value.hex();
  }
  void word(const char* key, const std::string& value) { out_[key] = value; }
  void words(const char* key, const std::vector<std::string>& value) { out_[key] = value; }
  void for_people(const char* key, const std::string& value, std::size_t bytes_max) {
    out_[key] = shown(value, bytes_max);
  }
  void save(const char* key, const SaveId& value) { out_[key] = to_json(value); }
  void save(const char* key, const std::optional<SaveId>& value) {
    out_[key] = value ? to_json(*value) : Json();
  }
  void saves(const char* key, const std::vector<SaveId>& value) {
    out_[key] = Json::array();
    for (const SaveId& save : value) out_[key].push_back(to_json(save));
  }
  void number_above_0(const char* key, std::uint64_t value) {
    if (value > 0) out_[key] = value;
  }
  void words_if_any(const char* key, const std::vector<std::string>& value) {
    if (!value.empty()) out_[key] = value;
  }
  void best(const char* key, const std::optional<BestRule>& value) {
    if (value) out_[key] = {{"metric", value->metric}, {"mode", value->is_least ? kMin : kMax}};
  }
  void numbers(const char* key, const std::map<std::string, double>& value) {
    out_[key] = Json::object();
    for (const auto& [name, number] : value) out_[key][name] = json_number(number);
  }
  template <class T, class List>
  void inner(const char* key, T& value, const List& list) {
    Writer io(out_[key], key);
    list(io, value);
  }

 private:
  Json& out_;
};

class Reader {
 public:
  Reader(const Json& body, std::string_view type) : f_(body, std::string(type)) {}
  void number(const char* key, std::uint64_t& value) { value = f_.u64(key); }
  void number(const char* key, std::uint32_t& value) { value = f_.u32(key); }
  void hex(const char* key, Sha256& value) { value = f_.sha256(key); }
  void hex(const char* key, Nonce& value) { value = f_.nonce(key); }
  void word(const char* key, std::string& value) { value = f_.text(key, kWordBytes); }
  void words(const char* key, std::vector<std::string>& value) {
    for (const Json& word : f_.array(key, 64)) {
      if (!word.is_string()) return f_.fail(fmt::format("\"{}\" is not a list of texts", key));
      value.push_back(word.get<std::string>());
    }
  }
  void number_above_0(const char* key, std::uint64_t& value) {
    if (f_.has(key)) value = f_.u64(key);
  }
  void words_if_any(const char* key, std::vector<std::string>& value) {
    if (f_.has(key)) words(key, value);
  }
  void best(const char* key, std::optional<BestRule>& value) {
    if (!f_.has(key)) return;
    Fields in(f_.object(key), key);
    const std::string metric = in.text("metric", kNameBytes), mode = in.text("mode", kWordBytes);
    if (const auto end = in.end(); !end.ok()) return f_.fail(end.error().what());
    if (metric.empty() || (mode != kMin && mode != kMax)) return f_.fail("no metric, or neither min nor max");
    value = BestRule{metric, mode == kMin};
  }
  void for_people(const char* key, std::string& value, std::size_t bytes_max) {
    value = f_.text(key, bytes_max);
  }
  void save(const char* key, SaveId& value) { take(key, save_id_from_json(f_.any(key)), value); }
  void save(const char* key, std::optional<SaveId>& value) {
    if (!f_.any(key).is_null()) save(key, value.emplace());
  }
  void saves(const char* key, std::vector<SaveId>& value) {
    for (const Json& save : f_.array(key, 1024)) take(key, save_id_from_json(save), value.emplace_back());
  }
  void numbers(const char* key, std::map<std::string, double>& value) {
    for (const auto& [name, number] : f_.object(key).items())
      take(key, number_from_json(number), value[name]);
  }
  template <class T, class List>
  void inner(const char* key, T& value, const List& list) {
    Reader io(f_.object(key), key);
    list(io, value);
    if (const auto end = io.end(); !end.ok()) f_.fail(end.error().what());
  }
  Result<> end() const { return f_.end(); }

 private:
  template <class T>
  void take(const char* key, const Result<T>& read, T& value) {
    if (!read.ok()) return f_.fail(fmt::format("\"{}\": {}", key, read.error().what()));
    value = read.value();
  }
  Fields f_;
};

template <class Io>
void members(Io& io, Genesis& g) {
  io.word("run", g.run);
  io.number("format", g.format);
  io.words("features", g.features);
}
template <class Io>
void members(Io& io, Owner& w) {
  io.for_people("job", w.job, kNameBytes);
  io.for_people("host", w.host, kNameBytes);
  io.for_people("boot", w.boot_id, kWordBytes);
  io.number("pid_namespace", w.pid_namespace);
  io.number("pid", w.pid);
  io.number("start_ticks", w.start_ticks);
  io.number("device", w.device);
  io.number("inode", w.inode);
}
template <class Io>
void members(Io& io, Open& o) {
  io.number("attempt", o.attempt);
  io.number("world", o.world);
  io.save("resume", o.resume);
  io.hex("life", o.life);
  io.for_people("asked", o.asked, kNameBytes);
  io.inner("owner", o.owner, [](auto& inner, Owner& w) { members(inner, w); });
}
template <class Io>
void members(Io& io, Commit& c) {
  io.save("save", c.save);
  io.hex("manifest", c.manifest);
  io.number("manifest_bytes", c.manifest_bytes);
  io.number("state_bytes", c.state_bytes);
  io.numbers("metrics", c.metrics);
  io.word("health", c.health);
  io.word("tier", c.tier);
  io.words_if_any("tags", c.tags);
}
template <class Io>
void members(Io& io, Abort& a) {
  io.save("save", a.save);
  io.for_people("why", a.why, kWhyBytes);
}
template <class Io>
void members(Io& io, Intent& i) {
  io.save("save", i.save);
}
template <class Io>
void members(Io& io, Deleted& d) {
  io.saves("saves", d.saves);
}
template <class Io>
void members(Io& io, Pin& p) {
  io.save("save", p.save);
  io.hex("pin", p.pin);
}
template <class Io>
void members(Io& io, Unpin& u) {
  io.save("save", u.save);
  io.hex("pin", u.pin);
}
template <class Io>
void members(Io& io, Quarantine& q) {
  io.save("save", q.save);
  io.word("tier", q.tier);
  io.for_people("object", q.object, kNameBytes);
  io.for_people("expected", q.expected, kNameBytes);
  io.for_people("seen", q.seen, kNameBytes);
  io.for_people("host", q.host, kNameBytes);
  io.hex("life", q.life);
}
template <class Io>
void members(Io& io, Verified& v) {
  io.save("save", v.save);
  io.word("tier", v.tier);
  io.for_people("host", v.host, kNameBytes);
}
template <class Io>
void members(Io& io, Policy& p) {
  io.number("keep_last", p.keep_last);
  io.number("verified_min", p.verified_min);
  io.number_above_0("keep_every", p.keep_every);
  io.best("best", p.best);
}
template <class Io>
void members(Io& io, Tag& t) {
  io.save("save", t.save);
  io.word("tag", t.tag);
}
template <class Io>
void members(Io& io, Untag& u) {
  io.save("save", u.save);
  io.word("tag", u.tag);
}
template <class Io>
void members(Io& io, Void& v) {
  io.number("slot", v.slot);
  io.hex("seen", v.seen);
}
template <class Io>
void members(Io& io, Summary& s) {
  io.number("form", s.form);
  io.hex("fold", s.fold);
  io.number("fold_bytes", s.fold_bytes);
}

/// What the members alone do not say.
template <class F>
Result<> check(const F&) {
  return Done{};
}
Result<> check(const Genesis& g) {
  if (g.features.empty()) return Done{};
  return written_by_newer(
      fmt::format("the run needs feature \"{}\", which this version does not know", g.features.front()));
}
Result<> check(const Open& o) {
  if (o.attempt == 0 || o.world == 0) return Error(Code::corrupt, "OPEN: attempt and world count from 1");
  return Done{};
}
Result<> check(const Policy& p) {
  if (p.keep_last == 0 || p.verified_min == 0) return Error(Code::corrupt, "POLICY counts from 1");
  return Done{};
}

Result<> check_tag(const std::string& tag) {
  if (is_tag_name(tag)) return Done{};
  return Error(Code::corrupt, fmt::format("\"{}\" is no name of a tag", tag));
}
Result<> check(const Tag& t) {
  return check_tag(t.tag);
}
Result<> check(const Untag& u) {
  return check_tag(u.tag);
}
Result<> check(const Commit& c) {
  if (c.tags.size() > kTagsMax) return Error(Code::corrupt, fmt::format("COMMIT: at most {} tags", kTagsMax));
  for (const std::string& tag : c.tags) UNBROKEN_DO(check_tag(tag));
  return Done{};
}

/// The version comes first: what else a later one holds need not look like anything known here.
Result<> check_format(const Json& genesis) {
  Fields f(genesis, "GENESIS");
  const std::uint32_t format = f.u32("format");
  UNBROKEN_DO(f.end());
  if (format == 1) return Done{};
  return written_by_newer(fmt::format("the run has format {}, this version reads format 1", format));
}

/// A SUMMARY of another form: what else it holds is not looked at, as without it nothing is wrong.
Result<std::uint32_t> form_of(const Json& summary) {
  Fields f(summary, "SUMMARY");
  const std::uint32_t form = f.u32("form");
  UNBROKEN_DO(f.end());
  return form;
}

template <class F>
Result<Fact> read(std::string_view type, const Json& body) {
  if constexpr (std::is_same_v<F, Genesis>) UNBROKEN_DO(check_format(body));
  if constexpr (std::is_same_v<F, Summary>) {
    UNBROKEN_TRY(const std::uint32_t form, form_of(body));
    if (form != kFoldForm) return Fact(Summary{.form = form, .fold = {}});
  }
  F fact;
  Reader io(body, type);
  members(io, fact);
  UNBROKEN_DO(io.end());
  UNBROKEN_DO(check(fact));
  return Fact(std::move(fact));
}

using Read = Result<Fact> (*)(std::string_view, const Json&);
template <std::size_t... I>
constexpr std::array<Read, kTypes> readers(std::index_sequence<I...>) {
  return {&read<std::variant_alternative_t<I, Fact>>...};
}

}  // namespace

std::string_view type_of(const Fact& fact) {
  const auto* reserved = std::get_if<Reserved>(&fact);
  return reserved != nullptr ? std::string_view(reserved->type) : kNames[fact.index()];
}

Json body_of(const Fact& fact) {
  return std::visit(
      []<class F>(F copy) -> Json {
        if constexpr (std::is_same_v<F, Reserved>) {
          return std::move(copy.body);
        } else {
          Json out;
          Writer io(out, {});
          members(io, copy);
          return out;
        }
      },
      fact);
}

Result<Fact> fact_from(const std::string& type, bool is_critical, const Json& body) {
  constexpr std::array<Read, kTypes> kReaders = readers(std::make_index_sequence<kTypes>());
  for (std::size_t i = 0; i < kTypes; ++i)
    if (type == kNames[i]) return kReaders[i](type, body);
  if (is_critical && type != "SEAL")
    return written_by_newer(fmt::format("record type {} is critical and not known here", type));
  return Fact(Reserved{type, is_critical, body});
}

}  // namespace unbroken
