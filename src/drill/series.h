#pragma once
// What a command says of its steps where no tap listens: values as it printed them, by step.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "drill/compare.h"

namespace unbroken {

/// Step -> name -> text.
using Series = std::map<std::uint64_t, std::map<std::string, std::string>>;

inline constexpr std::size_t kSeriesStepsMax = 1'000'000;

/// "12", " 0012", "12.0"; nullopt for what is no whole number.
std::optional<std::uint64_t> step_of_text(std::string_view text);
/// A later value replaces an earlier one; a long one is kept as its digest. Errors: bad_argument (too many
/// steps to compare).
Result<> put(Series& series, std::uint64_t step, std::string_view name, std::string_view text);
/// As a comparison takes them.
std::vector<TapStep> as_steps(const Series& series);

/// The lives of one run that is killed again and again, put together.
class PrintedRun {
 public:
  void add(std::size_t life, const Series& series, bool was_killed);
  /// For each step what was said last of it.
  const Series& merged() const { return merged_; }
  /// Adds all of it to `comparison`. What a killed life was about to print can be lost with it, although its
  /// checkpoint is there: steps between the last that a killed life printed and the first of the next one
  /// need not be there. At the end of the run that holds only where `has_final`, which then speaks for them.
  /// Gives the steps of `straight` that are missing so.
  std::vector<std::uint64_t> compare(const Series& straight, bool has_final, Comparison& comparison) const;

 private:
  struct Seen {
    std::uint64_t first, last;
    bool was_killed;
  };
  std::vector<Seen> lives_;                     // that printed a step
  std::map<std::uint64_t, std::size_t> whose_;  // step -> life
  Series merged_;
  bool was_killed_at_first_ = false;  // a life that had printed nothing
};

}  // namespace unbroken
