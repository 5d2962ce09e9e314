#include "cli/doctor/broken_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/look.h"
#include "engine/driver.h"
#include "format/keys.h"
#include "format/manifest.h"
#include "journal/hint.h"
#include "journal/slots.h"
#include "restore/choose.h"

namespace unbroken {

namespace {

bool is_damage(const Error& error) {
  return error.code() == Code::corrupt || error.code() == Code::bad_argument;
}

class Examine {
 public:
  Examine(const Seams& seams, const std::string& at, const Deadline& by) : seams_(seams), at_(at), by_(by) {}

  Result<BrokenJournal> run() {
    UNBROKEN_TRY(const std::vector<std::uint64_t> slots, list_slots());
    std::uint64_t next = 0;
    for (const std::uint64_t slot : slots) {
      if (slot > next) miss(next, slot - 1);
      UNBROKEN_DO(look_at(slot, slots.back()));
      next = slot + 1;
    }
    ask_hint(next);
    if (out_.errors.empty()) add(slot_key(next), next == 0 ? "missing" : "was damaged a moment ago");
    UNBROKEN_DO(look_at_saves());
    return std::move(out_);
  }

 private:
  void add(std::string object, std::string what) {
    out_.errors.push_back({std::move(object), 0, std::move(what)});
  }
  void add_slot(std::uint64_t slot, std::string what) {
    add(slot_key(slot), std::move(what));
    is_folding_ = false;
  }
  void miss(std::uint64_t first, std::uint64_t last) {
    add_slot(first, first == last ? "missing" : fmt::format("missing, and every one up to slot {}", last));
    before_.reset();
  }

  Result<std::vector<std::uint64_t>> list_slots() {
    std::vector<std::uint64_t> slots;
    const auto names = seams_.store.list(kJournalPrefix, by_);
    if (!names.ok() && !is_damage(names.error())) return names.error();
    if (!names.ok()) add("journal", names.error().what());
    if (names.ok())
      for (const std::string& name : names.value())
        if (const auto slot = slot_from_name(name)) slots.push_back(*slot);
    return slots;
  }

  Result<> look_at(std::uint64_t slot, std::uint64_t last) {
    const auto bytes = seams_.store.get(slot_key(slot), kRecordBytesRead, by_);
    const auto before = std::exchange(before_, std::nullopt);
    if (bytes.is(Code::not_found) || (!bytes.ok() && is_damage(bytes.error()))) {
      add_slot(slot, bytes.is(Code::not_found) ? "missing" : bytes.error().what());
      return Done{};
    }
    if (bytes.is(Code::unavailable)) {
      add_slot(slot, "not read: " + bytes.error().what());
      return Done{};
    }
    if (!bytes.ok()) return bytes.error();
    out_.bytes_read += bytes.value().size();
    const auto decoded = decode_record(bytes.value());
    if (decoded.is(Code::unsupported)) return decoded.error();
    if (!decoded.ok()) {
      if (pass_void(slot, bytes.value())) return Done{};
      refuse(slot, last, "no record: " + decoded.error().what());
      return Done{};
    }
    const Record& record = decoded.value().record;
    if (decoded.value().is_repaired) add(slot_key(slot), "repaired from its second copy");
    before_ = decoded.value().digest;
    if (record.slot != slot) {
      refuse(slot, last, fmt::format("belongs to slot {}", record.slot));
    } else if (is_folding_ ? record.previous != out_.prefix.head() : before && record.previous != *before) {
      add_slot(slot, "does not continue the record before it");
    } else if (is_folding_) {
      if (auto applied = out_.prefix.apply(record, decoded.value().digest); !applied.ok())
        add_slot(slot, applied.error().what());
    }
    return Done{};
  }

  /// What stands in `slot` is no record of it; the last one, behind a prefix that folds, may be given up.
  void refuse(std::uint64_t slot, std::uint64_t last, std::string what) {
    if (is_folding_ && slot == last && slot > 0) out_.voidable = slot;
    add_slot(slot, std::move(what));
  }

  /// True where the next slot declares this one void.
  bool pass_void(std::uint64_t slot, const std::string& junk) {
    if (!is_folding_) return false;
    const auto bytes = seams_.store.get(slot_key(slot + 1), kRecordBytesRead, by_);
    const auto after = bytes.ok() ? decode_record(bytes.value()) : Result<DecodedRecord>(bytes.error());
    const auto* v = after.ok() ? std::get_if<Void>(&after.value().record.fact) : nullptr;
    if (v == nullptr || v->slot != slot || v->seen != sha256(as_bytes(junk))) return false;
    out_.prefix.skip_void(slot, v->seen);
    return true;
  }

  void ask_hint(std::uint64_t head) {
    const auto bytes = seams_.store.get(kHintKey, kHintBytesRead, by_);
    const auto hint = bytes.ok() ? decode_hint(bytes.value()) : Result<Hint>(bytes.error());
    const auto& genesis = out_.prefix.genesis();
    if (!hint.ok() || hint.value().slot < head || (genesis && genesis->run != hint.value().run)) return;
    out_.voidable.reset();
    add_slot(head,
             fmt::format("missing, and every one up to slot {}, which the hint names", hint.value().slot));
  }

  /// What the manifest in the folder of a save says, where there is one.
  Result<std::optional<Commit>> described(const SaveId& save) {
    UNBROKEN_TRY(const std::vector<std::string> names, seams_.store.list(save_prefix(save), by_));
    for (const std::string& name : names) {
      const auto data = data_name_from(name);
      if (!data || data->kind != DataName::Kind::manifest) continue;
      const auto text = seams_.store.get(save_prefix(save) + name, kManifestBytesMax, by_);
      const auto sealed = text.ok() ? open_sealed(text.value(), {.bytes = kManifestBytesMax, .depth = 64})
                                    : Result<Sealed>(text.error());
      if (!sealed.ok() || !sealed.value().digest.hex().starts_with(data->digest_prefix)) continue;
      const auto manifest = decode_manifest(text.value(), sealed.value().digest);
      if (!manifest.ok() || manifest.value().save != save) continue;
      Commit commit;
      commit.save = save;
      commit.manifest = sealed.value().digest;
      commit.manifest_bytes = text.value().size();
      return std::optional(std::move(commit));
    }
    return std::optional<Commit>();
  }

  /// A name or a step means what lies there. Which one is best or tagged is known only from the part of the
  /// journal that can be read.
  void leave_only(const At& at, std::map<SaveId, Commit>& saves) const {
    const auto chosen = choose_any(out_.prefix, at_);
    const SaveId newest = saves.empty() ? SaveId{} : saves.rbegin()->first;
    std::erase_if(saves, [&](const auto& entry) {
      const SaveId& save = entry.first;
      switch (at.kind) {
        case At::Kind::newest:
          return save != newest;
        case At::Kind::step:
          return save.step != at.step;
        case At::Kind::save:
          return save != at.save;
        default:
          return !chosen.ok() || save != chosen.value()->commit.save;
      }
    });
  }

  Result<> look_at_saves() {
    std::map<SaveId, Commit> saves;
    for (const Checkpoint& c : out_.prefix.checkpoints())
      if (!c.is_intended) saves.emplace(c.commit.save, c.commit);
    const auto names = seams_.store.list(kDataPrefix, by_);
    if (!names.ok() && !is_damage(names.error())) return names.error();
    if (!names.ok()) add("data", names.error().what());
    for (const std::string& name : names.ok() ? names.value() : std::vector<std::string>()) {
      const auto save = save_from_name(name);
      if (!save || out_.prefix.find(*save) != nullptr) continue;
      auto commit = described(*save);
      if (!commit.ok() && !is_damage(commit.error())) return std::move(commit).error();
      if (commit.ok() && commit.value()) saves.emplace(*save, std::move(*commit.value()));
    }
    if (!at_.empty()) {
      UNBROKEN_TRY(const At at, parse_at(at_));
      leave_only(at, saves);
    }
    for (auto it = saves.rbegin(); it != saves.rend(); ++it) {
      auto found = unbroken::run(seams_, ReadSave(it->second, ReadSave::Depth::audit), by_);
      if (found.is(Code::not_found)) continue;  // data/ is no folder, which was said
      if (!found.ok()) return std::move(found).error();
      const Checkpoint* c = out_.prefix.find(it->first);
      out_.saves.push_back(
          {it->second, c != nullptr, c != nullptr && c->is_quarantined(), std::move(found).value()});
    }
    return Done{};
  }

  const Seams& seams_;
  const std::string& at_;
  const Deadline& by_;
  BrokenJournal out_;
  bool is_folding_ = true;
  std::optional<Sha256> before_;  // digest of the record in the slot before
};

}  // namespace

Result<BrokenJournal> examine_broken_journal(const Seams& seams, const std::string& at, const Deadline& by) {
  return Examine(seams, at, by).run();
}

}  // namespace unbroken
