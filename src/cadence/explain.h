#pragma once
// The arithmetic of an interval in words, with its own numbers in it: for `unbroken explain`, for the line at
// the start of a run and for the line when the interval changes much.
#include <string>

#include "base/json.h"
#include "cadence/cadence.h"

namespace unbroken {

/// One line: what is done, and the formula with the numbers.
///     every 13m 4s: M (1 + W0(-exp(-(1 + d/M)))) with d = 1.2s a save and M = 4h 10m (3 failures in 0.5
///     node-days, 95 % between 2h 5m and 9h 2m); efficiency 98.2 %
std::string explain_text(const CadencePlan& plan, const Cadence::Range& mtti_ci95);

/// The keys of `unbroken explain --json`; infinities as the string "Infinity".
Json explain_json(const CadencePlan& plan, const Cadence::Range& mtti_ci95);

}  // namespace unbroken
