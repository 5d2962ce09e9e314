#pragma once
// Does a run that was killed and resumed say the same as one that was not? Step by step, life by life.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "drill/tap.h"

namespace unbroken {

struct Difference {
  std::uint64_t step = 0;
  /// A tensor, else a value of the state, else a metric, else what is not attached; "step" where a whole step
  /// is missing or too many.
  std::string name;
  std::string straight, other;  ///< what each of them says; empty: nothing
  std::size_t life = 0;         ///< from 1; 0: no life has it
};

/// Global generators that two undisturbed runs do not have alike: nobody seeds them, so they are no part of
/// what a training computes (were one used, something else would differ too). So with what is not attached.
std::set<std::string> unseeded(const std::vector<TapStep>& straight, const std::vector<TapStep>& again);

/// Names that the two do not have alike: tensors, then values, then metrics.
std::vector<std::string> differing(const TapStep& a, const TapStep& b);

class Comparison {
 public:
  /// `left_out`: names that are not compared.
  explicit Comparison(const std::vector<TapStep>& straight, std::set<std::string> left_out = {});
  std::uint64_t last_step() const { return steps_.empty() ? 0 : steps_.rbegin()->first; }
  /// What one life said; every step of it counts, also one that a later life repeated.
  void add(std::size_t life, const std::vector<TapStep>& steps);
  /// This step need not be there.
  void excuse(std::uint64_t step) { seen_.insert(step); }
  /// The earliest step that differs; within it tensors before values before metrics
  /// before what is not attached, each by name. `is_over`:
  /// every step has to have been there by now.
  std::optional<Difference> first_difference(bool is_over) const;

 private:
  std::optional<Difference> first_of(const TapStep& straight, const TapStep& other) const;

  const std::set<std::string> left_out_;
  // A process with several runs says several things about one step.
  std::map<std::uint64_t, std::vector<TapStep>> steps_;
  std::set<std::uint64_t> seen_;
  std::optional<Difference> first_;
};

}  // namespace unbroken
