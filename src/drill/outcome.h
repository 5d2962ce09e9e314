#pragma once
// What came of a drill.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "drill/compare.h"
#include "drill/series.h"

namespace unbroken {

struct Life {
  std::optional<std::uint64_t> began;  ///< after that many steps; nullopt: it ended before
  bool is_resumed = false;             ///< it did not begin at the start
  std::string killed;                  ///< how, and where; empty: it was not
  std::string ended;                   ///< "finished", "SIGKILL", "status 75"
  std::string torn_file;               ///< that was being written when it was killed; empty: none is known of
  std::optional<std::uint64_t> last;   ///< the last step that it completed
  std::uint64_t steps = 0;             ///< how many it completed
  double seconds = 0;
  Series series;
};

struct DrillResult {
  std::uint64_t steps = 0, kills = 0, resumes = 0;
  bool is_deterministic = true;
  std::optional<Difference> difference;
  std::string failure;  ///< a life that ended as none may
  std::vector<std::string> not_attached;
  std::set<std::string> not_seeded;  ///< global generators that are new in every process: not compared
  std::vector<Life> lives;
  /// The undisturbed run; its twin where the two differ.
  Series straight, again;
  /// Of a command without Unbroken:
  bool is_printed = false, has_final = false;
  std::vector<std::uint64_t> not_seen;     ///< steps that were lost with a life, and not compared
  std::vector<std::string> final_differs;  ///< names in the final state, in order
  std::vector<std::string> forgotten;      ///< what did not come back in the life that differs
  bool is_ok() const { return is_deterministic && !difference && failure.empty(); }
};

/// "40 steps, 3 kills, 0 differences".
std::string headline(const DrillResult& result);
/// What kind of thing was forgotten, as far as the first difference tells; empty where it tells nothing.
std::string explanation(const DrillResult& result);
/// "step 7: model.weight is 12ab, without kills 34cd".
std::string text_of(const Difference& difference);

}  // namespace unbroken
