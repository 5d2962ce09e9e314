#include "filestore/leftovers.h"

#include "base/layout.h"
#include "filestore/probe.h"

namespace unbroken {

namespace {

constexpr std::size_t kNonceDigits = 16;

bool is_slot(std::string_view object) {
  constexpr std::size_t kSlotDigits = 20;
  return object.size() == kSlotDigits && object.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_fold(std::string_view object) {
  constexpr std::size_t kSlotDigits = 20, kBytes = kSlotDigits + 1 + kNonceDigits;
  return object.size() == kBytes && object[kSlotDigits] == '-';
}

bool is_of_the_journal(std::string_view object) {
  // Also the temporary name of a probe's object, which looks like one itself.
  return is_slot(object) || object == kProbeName || temporary_of(object) == kProbeName;
}

}  // namespace

void sweep_leftovers(FileStore& store, const Deadline& by) {
  const auto sweep = [&](std::string_view prefix, bool (*is_ours)(std::string_view)) {
    static_cast<void>(store.sweep(prefix, is_ours, by).ok());
  };
  sweep(kJournalPrefix, is_of_the_journal);
  sweep(kFoldPrefix, is_fold);
  sweep(kPinsPrefix, [](std::string_view object) { return object.size() == kNonceDigits; });
  sweep("", [](std::string_view object) { return object == kRunKey || object == kHintKey; });
  sweep(kMetricsPrefix, [](std::string_view object) { return object.ends_with(".account"); });
}

}  // namespace unbroken
