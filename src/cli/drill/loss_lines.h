#pragma once
// Steps and losses in the lines that a command prints, by a regular expression of the user. RE2 matches it:
// in time linear in the line whatever the expression, and in bounded memory.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "drill/series.h"

namespace re2 {
class RE2;
}

namespace unbroken {

inline constexpr std::size_t kOutputLineBytesMax = std::size_t{64} << 10;

class LossLines {
 public:
  /// `pattern` has the groups `step` and `loss`, in either spelling: (?P<step>...) or (?<step>...); further
  /// named groups are compared too. `{dir}` in it stands for `directory`.
  /// Errors: bad_argument, naming --loss-regex.
  static Result<LossLines> compile(std::string_view pattern, std::string_view directory);
  LossLines(LossLines&&) noexcept;
  ~LossLines();

  /// The first match in the line. Errors: bad_argument (too many steps).
  Result<> add(std::string_view line, Series& series);
  /// A text that the group `step` matched although it is no whole number; empty: there was none.
  const std::string& odd_step() const { return odd_step_; }

 private:
  explicit LossLines(std::unique_ptr<re2::RE2> regex);

  struct Group {
    std::string name;
    int number;
  };
  std::unique_ptr<re2::RE2> regex_;
  int step_ = 0;
  std::vector<Group> values_;
  std::string odd_step_;
};

}  // namespace unbroken
