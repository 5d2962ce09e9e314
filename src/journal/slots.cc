#include "journal/slots.h"

#include <fmt/format.h>

#include "base/text.h"
#include "journal/fold/fold.h"

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
  if (state_ == State::looking_for_void) return on_void(bytes);
  if (!bytes) {
    state_ = State::reading;
    return Step::head;
  }
  const std::uint64_t slot = history_.next_slot();
  auto decoded = decode_record(*bytes);
  if (decoded.is(Code::unsupported))
    return std::move(decoded).error().with(fmt::format("journal slot {}", slot));
  if (!decoded.ok()) return on_junk(*bytes, decoded.error().what());
  if (decoded.value().record.slot != slot) return on_junk(*bytes, "it belongs to another slot");
  if (decoded.value().record.previous != history_.head()) {
    is_chain_broken_ = true;
    return Error(Code::journal_unreadable,
                 fmt::format("journal slot {} does not continue the records before it", slot));
  }
  return fold(decoded.value());
}

Result<Follow::Step> Follow::on_junk(const std::string& bytes, const std::string& why) {
  constexpr int kRereadsMax = 3;
  const bool is_second_look = state_ == State::reading_again;
  rereads_ = is_second_look ? rereads_ + 1 : 0;
  const bool is_certain = is_second_look && (bytes == junk_ || rereads_ == kRereadsMax);
  state_ = is_certain ? State::looking_for_void : State::reading_again;
  junk_ = bytes;
  junk_why_ = why;
  return Step::more;
}

Result<Follow::Step> Follow::on_void(const std::optional<std::string>& bytes) {
  const Void due{history_.next_slot(), sha256(as_bytes(junk_))};
  const auto refuse = [&](std::string_view why) {
    return Error(Code::journal_unreadable,
                 fmt::format("journal slot {} is there but does not check out ({}), and {}", due.slot,
                             junk_why_, why));
  };
  if (!bytes) return refuse("no later slot declares it void");
  auto after = decode_record(*bytes);
  const auto* v = after.ok() ? std::get_if<Void>(&after.value().record.fact) : nullptr;
  if (v == nullptr || v->slot != due.slot || v->seen != due.seen ||
      after.value().record.slot != due.slot + 1 || after.value().record.previous != history_.head())
    return refuse("the slot after it does not declare it void");
  history_.skip_void(due.slot, due.seen);
  return fold(after.value());
}

void Follow::audit(const DecodedRecord& decoded) {
  const auto* summary = std::get_if<Summary>(&decoded.record.fact);
  if (summary == nullptr || summary->form != kFoldForm) return;
  const auto fold = encode_fold(history_);
  if (!fold.ok() || fold.value().summary != *summary) wrong_summaries_.push_back(decoded.record.slot);
}

Result<Follow::Step> Follow::fold(const DecodedRecord& decoded) {
  state_ = State::reading;
  if (decoded.is_repaired) repaired_.push_back(decoded.record.slot);
  if (is_auditing_) audit(decoded);
  UNBROKEN_DO(history_.apply(decoded.record, decoded.digest));
  return Step::more;
}

}  // namespace unbroken
