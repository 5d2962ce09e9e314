#include "engine/read/verify_folds.h"

#include <algorithm>

#include "engine/read/reader.h"
#include "journal/fold/fold.h"
#include "journal/slots.h"

namespace unbroken {

Result<std::vector<Damage>> verify_folds(const Seams& seams, const JournalRead& audited, const Deadline& by) {
  std::vector<Damage> found;
  for (const std::uint64_t slot : audited.wrong_summaries)
    found.push_back({slot_key(slot), 0, "its SUMMARY names another fold than the records before it come to"});
  for (const FoldRef& ref : audited.history.folds()) {
    if (ref.summary.form != kFoldForm) continue;
    const auto bytes = seams.store.get(fold_key(ref), kFoldBytesMax, by);
    if (bytes.is(Code::unavailable) || bytes.is(Code::stopped) || bytes.is(Code::late)) return bytes.error();
    const Result<> checked = bytes.ok() ? check_fold(bytes.value(), ref.summary) : Result<>(bytes.error());
    if (!checked.ok())
      found.push_back({fold_key(ref), 0, bytes.is(Code::not_found) ? "missing" : checked.error().what()});
  }
  const bool is_any_of_fold = std::any_of(found.begin(), found.end(),
                                          [](const Damage& d) { return d.object.starts_with(kFoldPrefix); });
  if (!is_any_of_fold) return found;
  // The run may have gone on meanwhile and removed them.
  UNBROKEN_TRY(const JournalRead now, look_at_run(seams, by));
  std::erase_if(found, [&](const Damage& d) {
    const auto& kept = now.history.folds();
    return d.object.starts_with(kFoldPrefix) &&
           std::none_of(kept.begin(), kept.end(),
                        [&](const FoldRef& ref) { return fold_key(ref) == d.object; });
  });
  return found;
}

}  // namespace unbroken
