#pragma once
// What did not come back when a training was resumed, told from digests of its parts at the start of each
// step.
#include <cstddef>
#include <string>
#include <vector>

#include "drill/tap.h"

namespace unbroken {

/// Which of `straight` the first step of `resumed` is, from 0: the one that it has most in common with.
std::size_t likeliest_begin(const std::vector<TapStep>& straight, const std::vector<TapStep>& resumed);

/// Names of the values that the resumed life has otherwise than the undisturbed run, at the first of its
/// steps where there are any; the most telling ones first. `begins`: which of `straight` its first step is,
/// from 0. What never changes is nothing that could be forgotten.
std::vector<std::string> forgotten(const std::vector<TapStep>& straight, const std::vector<TapStep>& resumed,
                                   std::size_t begins);

/// Is the place in the data named beside a generator, so that other batches may come of that generator alone?
bool may_follow_from_generators(const std::vector<std::string>& forgotten);
/// `forgotten` without the place in the data, where that was right in `mended`: the same life, once its
/// generators were put right in its first step.
std::vector<std::string> without_what_followed(std::vector<std::string> forgotten,
                                               const std::vector<TapStep>& straight,
                                               const std::vector<TapStep>& mended, std::size_t begins);

}  // namespace unbroken
