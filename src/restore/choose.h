#pragma once
// Which checkpoint a person means: `newest`, `1200`, `1200.a3`, `1200.a3.t1`, `best:loss`, `tag:NAME`. Pure.
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "journal/history.h"

namespace unbroken {

struct At {
  enum class Kind : std::uint8_t { newest, step, save, best, tag };
  Kind kind = Kind::newest;
  std::uint64_t step = 0;
  SaveId save;
  std::string name;              ///< of a metric or a tag
  std::optional<BestRule> rule;  ///< which value is best, where the caller knows; else the journal says it
  std::string text = "newest";
};

/// Errors: bad_argument.
Result<At> parse_at(std::string_view text);

/// A number means the one on the current lineage; where there is none there (any more), the only one of that
/// step.
/// Of several with the tag, the newest. The best is that of the whole run, whatever lineage.
/// Errors:  not_found, naming what there is; bad_argument (an ambiguous number, naming the candidates);
///          corrupt (it is quarantined and was named).
/// Owns:    nothing: what it returns lies in `history`.
Result<const Checkpoint*> choose(const History& history, const At& at);

/// "1200.a3, 1100.a3": what can be loaded, newest first, at most `count_max` names; "none".
std::string list_of_good(const History& history, std::size_t count_max = 10,
                         const std::set<SaveId>& left_out = {});

}  // namespace unbroken
