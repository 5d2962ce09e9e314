#pragma once
// What a watched run said about its steps: one line for each completed step, with the bits of the metrics,
// the digest of every tensor, and the rest of the state. docs/reference/program.md has the keys.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace unbroken {

struct TapStep {
  std::uint64_t step = 0;  ///< completed steps
  std::map<std::string, std::string> tensors, values, metrics;
  std::map<std::string, std::string> not_attached;  ///< variable -> digest of its state; empty: none is known
  friend bool operator==(const TapStep&, const TapStep&) = default;
};

/// Errors: corrupt.
Result<TapStep> parse_tap_line(std::string_view line);
/// All lines of one life. A line that a kill cut short is left out. Errors: corrupt.
Result<std::vector<TapStep>> parse_tap(std::string_view text);
/// Only the number, quickly; 0 where it is not there.
std::uint64_t step_of_tap_line(std::string_view line);

}  // namespace unbroken
