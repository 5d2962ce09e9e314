#include "journal/fold/fold.h"

#include <fmt/format.h>

#include <utility>

#include "base/layout.h"
#include "base/mutant.h"
#include "journal/facts.h"
#include "journal/slots.h"

namespace unbroken {

namespace {

constexpr std::string_view kMagicStem = "unbroken-fold-";
constexpr std::string_view kMagic = "unbroken-fold-1";
static_assert(kFoldForm == 1);

/// Lists are bounded by the bytes of the text.
constexpr std::size_t kRowsMax = std::size_t{1} << 20;
constexpr std::size_t kNameHexes = 16;

Json saved_or_null(const std::optional<SaveId>& save) {
  return save ? to_json(*save) : Json();
}

/// Reads members that are facts, times and lists; what is wrong is kept in the fields.
class Row {
 public:
  Row(const Json& object, const char* what) : f(object, what) {}
  Fields f;

  template <class F>
  F fact(const char* key, std::string_view type) {
    auto read = fact_from(std::string(type), true, f.object(key));
    if (read.is(Code::unsupported)) unsupported = read.error();
    if (!read.ok()) {
      f.fail(read.error().what());
      return {};
    }
    return std::get<F>(std::move(read).value());
  }
  std::int64_t time(const char* key) {
    const Json& value = f.any(key);
    const bool is_time =
        value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
    if (!is_time) f.fail(fmt::format("\"{}\" is not a time", key));
    return is_time ? value.get<std::int64_t>() : 0;
  }
  SaveId save(const Json& value) {
    auto read = save_id_from_json(value);
    if (!read.ok()) f.fail(read.error().what());
    return read.ok() ? read.value() : SaveId{};
  }
  std::optional<SaveId> save_or_null(const char* key) {
    const Json& value = f.any(key);
    return value.is_null() ? std::nullopt : std::optional(save(value));
  }
  /// Texts, ascending and each once.
  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> out;
    for (const Json& value : f.array(key, kRowsMax)) {
      const bool is_next =
          value.is_string() && (out.empty() || out.back() < value.get_ref<const std::string&>());
      if (!is_next) {
        f.fail(fmt::format("\"{}\" is not a list of texts in their order", key));
        break;
      }
      out.push_back(value.get<std::string>());
    }
    return out;
  }
  Result<> end() const {
    if (unsupported) return *unsupported;
    return f.end();
  }
  std::optional<Error> unsupported;
};

Error contradiction(std::string_view what) {
  return Error(Code::corrupt, fmt::format("fold: {}", what));
}

}  // namespace

class FoldText {
 public:
  static Json json_of(const History& h) {
    Json attempts = Json::array(), checkpoints = Json::array(), aborted = Json::array(),
         folds = Json::array();
    for (const Attempt& a : h.attempts_)
      attempts.push_back({{"open", body_of(a.open)},
                          {"slot", a.slot},
                          {"record", a.digest.hex()},
                          {"at", a.at_unix_ms},
                          {"commits", a.commits},
                          {"last_commit", saved_or_null(a.last_commit)},
                          {"last_sign", a.last_sign_unix_ms}});
    for (const Checkpoint& c : h.checkpoints_) {
      Json pins = Json::array();
      for (const Nonce& pin : c.pins) pins.push_back(pin.hex());
      checkpoints.push_back({{"commit", body_of(c.commit)},
                             {"slot", c.slot},
                             {"at", c.at_unix_ms},
                             {"condemned", c.is_intended},
                             {"verified", c.verified},
                             {"quarantine", c.quarantine ? body_of(*c.quarantine) : Json()},
                             {"pins", std::move(pins)},
                             {"tags", c.tags}});
    }
    for (const SaveId& save : h.aborted_) aborted.push_back(to_json(save));
    for (const FoldRef& ref : h.folds_)
      folds.push_back({{"slot", ref.slot}, {"summary", body_of(ref.summary)}});
    return {{"magic", kMagic},
            {"slot", h.next_slot_},
            {"previous", h.head_.hex()},
            {"genesis", body_of(*h.genesis_)},
            {"policy", body_of(h.policy_)},
            {"sealed", h.is_sealed_},
            {"voids", h.voids_since_open_},
            {"attempts", std::move(attempts)},
            {"checkpoints", std::move(checkpoints)},
            {"aborted", std::move(aborted)},
            {"folds", std::move(folds)}};
  }

  static Result<History> history_of(const Json& value) {
    Row row(value, "fold");
    const std::string magic = row.f.text("magic", kWordBytes);
    if (magic != kMagic && magic.starts_with(kMagicStem))
      return Error(Code::unsupported,
                   fmt::format("it is of form \"{}\", this version reads \"{}\"", magic, kMagic));
    if (magic != kMagic) return contradiction("wrong magic");
    History h;
    h.next_slot_ = row.f.u64("slot");
    h.head_ = row.f.sha256("previous");
    h.genesis_ = row.fact<Genesis>("genesis", "GENESIS");
    h.policy_ = row.fact<Policy>("policy", "POLICY");
    h.is_sealed_ = row.f.boolean("sealed");
    h.voids_since_open_ = row.f.u32("voids");
    const Json& attempts = row.f.array("attempts", kRowsMax);
    const Json& checkpoints = row.f.array("checkpoints", kRowsMax);
    const Json& aborted = row.f.array("aborted", kRowsMax);
    const Json& folds = row.f.array("folds", kFoldsKept);
    UNBROKEN_DO(row.end());
    if (h.next_slot_ == 0) return contradiction("of no slot");
    for (const Json& attempt : attempts) UNBROKEN_DO(add_attempt(h, attempt));
    for (const Json& checkpoint : checkpoints) UNBROKEN_DO(add_checkpoint(h, checkpoint));
    for (const Json& save : aborted) UNBROKEN_DO(add_aborted(h, save));
    for (const Json& fold : folds) UNBROKEN_DO(add_fold(h, fold));
    return h;
  }

  static void set_every(History& h, std::uint64_t fold_every) { h.fold_every_ = fold_every; }

 private:
  static Result<> add_attempt(History& h, const Json& value) {
    Row row(value, "fold: attempt");
    Attempt a;
    a.open = row.fact<Open>("open", "OPEN");
    a.slot = row.f.u64("slot");
    a.digest = row.f.sha256("record");
    a.at_unix_ms = row.time("at");
    a.commits = row.f.u32("commits");
    a.last_commit = row.save_or_null("last_commit");
    a.last_sign_unix_ms = row.time("last_sign");
    UNBROKEN_DO(row.end());
    const Attempt* before = h.newest_attempt();
    const bool is_next = a.slot < h.next_slot_ && a.slot > (before == nullptr ? 0 : before->slot) &&
                         a.open.attempt > (before == nullptr ? 0 : before->open.attempt);
    const bool is_resume_older = !a.open.resume || a.open.resume->attempt < a.open.attempt;
    const bool is_last_own =
        a.last_commit ? a.last_commit->attempt == a.open.attempt && a.commits > 0 : a.commits == 0;
    if (!is_next || !is_resume_older || !is_last_own) return contradiction("an attempt out of order");
    h.attempts_.push_back(std::move(a));
    return Done{};
  }

  static Result<> add_checkpoint(History& h, const Json& value) {
    Row row(value, "fold: checkpoint");
    Checkpoint c;
    c.commit = row.fact<Commit>("commit", "COMMIT");
    c.slot = row.f.u64("slot");
    c.at_unix_ms = row.time("at");
    c.is_intended = row.f.boolean("condemned");
    const auto verified = row.texts("verified"), pins = row.texts("pins"), tags = row.texts("tags");
    if (!row.f.any("quarantine").is_null()) c.quarantine = row.fact<Quarantine>("quarantine", "QUARANTINE");
    c.verified = {verified.begin(), verified.end()};
    c.tags = {tags.begin(), tags.end()};
    for (const std::string& tag : tags)
      if (!is_tag_name(tag)) row.f.fail("no name of a tag");
    for (const std::string& pin : pins) {
      const auto nonce = Nonce::from_hex(pin);
      if (nonce.ok()) c.pins.insert(nonce.value());
      if (!nonce.ok()) row.f.fail("no nonce of a pin");
    }
    UNBROKEN_DO(row.end());
    const SaveId& save = c.commit.save;
    const bool is_next =
        c.slot < h.next_slot_ && (h.checkpoints_.empty() || c.slot > h.checkpoints_.back().slot);
    const Attempt* attempt = h.find_attempt(save.attempt);
    const bool is_of_attempt =
        attempt != nullptr && c.slot > attempt->slot && attempt->last_commit && save <= *attempt->last_commit;
    const bool is_after = attempt == nullptr || attempt == h.newest_attempt() || c.slot < (attempt + 1)->slot;
    const bool is_own = !c.quarantine || c.quarantine->save == save;
    if (!is_next || !is_of_attempt || !is_after || !is_own || h.index_.contains(save))
      return contradiction(fmt::format("checkpoint {} does not fit the rest", save.name()));
    if (!h.checkpoints_.empty() && h.checkpoints_.back().commit.save.attempt == save.attempt &&
        h.checkpoints_.back().commit.save.step >= save.step)
      return contradiction(fmt::format("checkpoint {} is out of order", save.name()));
    h.index_[save] = h.checkpoints_.size();
    h.checkpoints_.push_back(std::move(c));
    return Done{};
  }

  static Result<> add_aborted(History& h, const Json& value) {
    UNBROKEN_TRY(const SaveId save, save_id_from_json(value));
    const Attempt* newest = h.newest_attempt();
    const bool is_next = h.aborted_.empty() || *h.aborted_.rbegin() < save;
    if (newest == nullptr || newest->open.attempt != save.attempt || !is_next || h.find(save) != nullptr)
      return contradiction(fmt::format("{} was not aborted", save.name()));
    h.aborted_.insert(h.aborted_.end(), save);
    return Done{};
  }

  static Result<> add_fold(History& h, const Json& value) {
    Row row(value, "fold: fold");
    const FoldRef ref{row.f.u64("slot"), row.fact<Summary>("summary", "SUMMARY")};
    UNBROKEN_DO(row.end());
    if (ref.slot >= h.next_slot_ || ref.slot <= (h.folds_.empty() ? 0 : h.folds_.back().slot))
      return contradiction("earlier folds out of order");
    h.folds_.push_back(ref);
    return Done{};
  }
};

Result<EncodedFold> encode_fold(const History& prefix) {
  if (!prefix.genesis()) return Error(Code::bad_argument, "a fold of no record");
  Json value = FoldText::json_of(prefix);
  if (UNBROKEN_MUTANT("stale_summary") && !value["checkpoints"].empty())
    value["checkpoints"].erase(value["checkpoints"].size() -
                               1);  // folded before its last look at the journal
  UNBROKEN_TRY(std::string text, canonical_json(value));
  EncodedFold out;
  out.summary.fold = sha256(as_bytes(text));
  add_seal(text);
  if (text.size() > kFoldBytesMax)
    return Error(Code::bad_argument,
                 fmt::format("a fold of {} bytes: at most {} are written", text.size(), kFoldBytesMax));
  out.summary.fold_bytes = text.size();
  out.key = fold_key({prefix.next_slot(), out.summary});
  out.bytes = std::move(text);
  return out;
}

Result<> check_fold(std::string_view bytes, const Summary& named) {
  if (bytes.size() != named.fold_bytes)
    return Error(Code::corrupt,
                 fmt::format("has {} bytes, its SUMMARY says {}", bytes.size(), named.fold_bytes));
  const Sha256 seen = sha256(as_bytes(bytes.substr(0, bytes.find('\n'))));
  if (seen != named.fold)
    return Error(Code::corrupt,
                 fmt::format("its SHA-256 is {}, its SUMMARY says {}", seen.hex(), named.fold.hex()));
  return Done{};
}

Result<History> decode_fold_text(std::string_view bytes) {
  UNBROKEN_TRY(const Sealed sealed,
               open_sealed(bytes, {.bytes = kFoldBytesMax, .depth = 16, .nodes = std::size_t{2} << 20}));
  return FoldText::history_of(sealed.value);
}

Result<History> decode_fold(std::string_view bytes, const FoldRef& named, const Sha256& previous,
                            std::uint64_t fold_every) {
  if (named.summary.form != kFoldForm)
    return Error(Code::unsupported,
                 fmt::format("the fold of slot {} is of form {}, this version reads form {}", named.slot,
                             named.summary.form, kFoldForm));
  if (!UNBROKEN_MUTANT("fold_unchecked")) UNBROKEN_DO(check_fold(bytes, named.summary));
  UNBROKEN_TRY(History history, decode_fold_text(bytes));
  if (history.next_slot() != named.slot || history.head() != previous)
    return contradiction("of another prefix than its SUMMARY follows");
  FoldText::set_every(history, fold_every);
  return history;
}

std::string fold_key(const FoldRef& ref) {
  return fmt::format("{}{:020}-{}", kFoldPrefix, ref.slot, ref.summary.fold.hex().substr(0, kNameHexes));
}

std::optional<std::uint64_t> slot_of_fold(std::string_view name) {
  constexpr std::string_view kHex = "0123456789abcdef";
  if (name.size() != 20 + 1 + kNameHexes || name[20] != '-') return std::nullopt;
  if (name.substr(21).find_first_not_of(kHex) != std::string_view::npos) return std::nullopt;
  return slot_from_name(name.substr(0, 20));
}

}  // namespace unbroken
