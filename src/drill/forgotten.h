#pragma once
// What did not come back when a training was resumed, told from digests of its parts at the start of each
// step.
#include <optional>
#include <string>
#include <vector>

#include "drill/tap.h"

namespace unbroken {

/// Names of the values that the resumed life has otherwise than the undisturbed run, at the first of its
/// steps where there are any; the most telling ones first. `begins`: which of `straight` its first step is,
/// from 0; where nobody knows, the one that it has most in common with. What never changes is nothing that
/// could be forgotten.
std::vector<std::string> forgotten(const std::vector<TapStep>& straight, const std::vector<TapStep>& resumed,
                                   std::optional<std::size_t> begins);

}  // namespace unbroken
