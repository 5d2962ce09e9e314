#include "journal/slots.h"

#include <fmt/format.h>

#include "base/text.h"

namespace unbroken {

std::string slot_key(std::uint64_t slot) {
  return fmt::format("{}{:020}", kJournalPrefix, slot);
}

std::optional<std::uint64_t> slot_from_name(std::string_view name) {
  if (name.size() != 20) return std::nullopt;
  const auto slot = parse_u64(trim_zeros(name));
  return slot.ok() ? std::optional(slot.value()) : std::nullopt;
}

Action Follow::ask() const {
  const std::uint64_t slot = history_.next_slot() + (state_ == State::looking_for_void ? 1 : 0);
  return GetObject{slot_key(slot), kRecordBytesRead};
}

Result<Follow::Step> Follow::on(const std::optional<std::string>& bytes) {
  const std::uint64_t slot = history_.next_slot();
  const auto refuse = [&](std::string_view why) {
    return Error(
               Code::journal_unreadable,
               fmt::format("journal slot {} is there but does not check out ({}): {}", slot, junk_why_, why))
        .next("unbroken verify DIR");
  };
  if (state_ == State::looking_for_void) {
    if (!bytes) return refuse("nothing may be appended after it");
    auto after = decode_record(*bytes);
    const auto* v = after.ok() ? std::get_if<Void>(&after.value().record.fact) : nullptr;
    if (v == nullptr || v->slot != slot || v->seen != sha256(as_bytes(junk_)) ||
        after.value().record.previous != history_.head())
      return refuse("the slot after it does not declare it void");
    history_.skip_void(slot, v->seen);
    state_ = State::reading;
    UNBROKEN_DO(history_.apply(after.value().record, after.value().digest));
    return Step::more;
  }
  if (!bytes) {
    if (state_ == State::reading_again) state_ = State::reading;
    return Step::head;
  }
  auto decoded = decode_record(*bytes);
  if (decoded.is(Code::unsupported))
    return std::move(decoded).error().with(fmt::format("journal slot {}", slot));
  if (!decoded.ok()) return junk(*bytes, decoded.error());
  if (decoded.value().record.slot != slot)
    return junk(*bytes, Error(Code::corrupt, "it belongs to another slot"));
  state_ = State::reading;
  rereads_ = 0;
  if (decoded.value().record.previous != history_.head()) {
    is_chain_broken_ = true;
    return Error(Code::journal_unreadable,
                 fmt::format("journal slot {} does not follow slot {}", slot, slot == 0 ? 0 : slot - 1))
        .next("unbroken verify DIR");
  }
  if (decoded.value().is_repaired) repaired_.push_back(slot);
  UNBROKEN_DO(history_.apply(decoded.value().record, decoded.value().digest));
  return Step::more;
}

Result<Follow::Step> Follow::junk(const std::string& bytes, const Error& why) {
  if (state_ == State::reading_again && (bytes == junk_ || ++rereads_ >= 3)) {
    state_ = State::looking_for_void;
    return Step::more;
  }
  state_ = State::reading_again;
  junk_ = bytes;
  junk_why_ = why.what();
  return Step::more;
}

}  // namespace unbroken
