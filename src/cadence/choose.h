#pragma once
// From what would be best to what is done: the optimum, held by what the storage can follow and by what was
// promised. The planner and a running job choose by this one rule.
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace unbroken {

/// What decided the interval.
enum class BoundBy : std::uint8_t { optimum, floor, rpo, given, no_failures, every_min, every_max };
/// "optimum", "no-failures".
std::string_view name_of(BoundBy bound) noexcept;
std::optional<BoundBy> bound_from(std::string_view name) noexcept;

/// All in seconds. Intervals are work between saves, without the stall.
struct Choice {
  double exact_s = 0;  ///< the optimum; infinite where no failures are expected
  double floor_s = 0;  ///< the storage cannot follow a shorter one
  double slow_s = 0;   ///< the same for a save as slow as any of the last; only a promise counts it
  double stall_s = 0;
  double persist_s = 0;
  double slowed_s = 0;  ///< by the writes behind, between two saves as far apart as the promise lets them be
  double step_s = 0;    ///< a save falls on the end of a step: up to one step after the interval
  double rpo_s = std::numeric_limits<double>::infinity();  ///< never lose more than this
  double min_s = 0;
  double max_s = std::numeric_limits<double>::infinity();
  /// The longest where no failures are expected.
  double quiet_s = 3600;
};

struct Chosen {
  double interval_s = 0;
  BoundBy bound_by = BoundBy::optimum;
};

/// max(exact, floor), at most what the promise leaves: rpo - stall - persist - slowed - step; nothing shorter
/// than a step is ever done. Errors: bad_argument (the promise cannot be kept), with both figures in the
/// text.
Result<Chosen> choose_interval(const Choice& in);

}  // namespace unbroken
