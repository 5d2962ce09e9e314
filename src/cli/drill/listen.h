#pragma once
// How a life of a drilled command is heard while it runs: by the tap and the points of the library, or, where
// the command does not use Unbroken, by what it prints and by the files that it writes.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/drill/drill_life.h"
#include "drill/series.h"
#include "os/child.h"

namespace unbroken {

class Listener {
 public:
  virtual ~Listener() = default;
  /// What the command's environment needs for it.
  virtual std::vector<std::pair<std::string, std::optional<std::string>>> environment(
      const std::optional<Kill>& kill) const = 0;
  virtual void prepare(ChildOptions& options) const = 0;
  /// For something to come, for `limit` at most.
  virtual void wait(const Child& child, Duration limit) = 0;
  /// Takes what has come; adds the points that were passed. `is_over`: the life has ended, everything is
  /// there. Errors: bad_argument (more than can be compared), unavailable.
  virtual Result<> look(Child& child, bool is_over, std::vector<std::string>& points) = 0;
  /// As a kill plan counts them.
  virtual std::uint64_t completed() const = 0;
  /// Is anything there to resume from? A kill before that proves nothing.
  virtual bool has_checkpoint() = 0;
  /// Does the command end itself at the point that it is told?
  virtual bool is_killed_by_itself() const = 0;
  /// Once, at the end. Errors: corrupt.
  virtual Result<> finish(LifeEnd& life) = 0;
};

std::unique_ptr<Listener> tap_listener(const LifeFiles& files);

/// `straight`: what the undisturbed run printed; nullptr: this is it. Errors: bad_argument, unavailable.
Result<std::unique_ptr<Listener>> printed_listener(const PrintedOptions& options, const LifeFiles& files,
                                                   bool keeps_output, const Series* straight);

}  // namespace unbroken
