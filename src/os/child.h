#pragma once
// A command in a process group of its own, for whoever starts it, kills it and looks at how it ended. What
// the command leaves behind in that group is reaped too: the end of a child is the end of its whole group.
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/descriptor.h"
#include "world/clock.h"

namespace unbroken {

struct ChildOptions {
  std::vector<std::string> command;  ///< looked up in PATH
  /// Set, or removed where there is no value; everything else is inherited.
  std::vector<std::pair<std::string, std::optional<std::string>>> env;
  std::string stdout_file, stderr_file;  ///< created, or added to; empty: our own stderr
  bool is_output_read = false;           ///< stdout is a pipe that we read; `stdout_file` is not used
};

class Child {
 public:
  /// stdin is empty. Errors: not_found (no such command), unavailable, no_space.
  static Result<Child> start(const ChildOptions& options);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  /// Kills what is left of the group, and waits for it.
  ~Child();

  enum class Signal : std::uint8_t { kill, term, stop };
  /// To the whole group.
  void send(Signal signal);

  struct End {
    bool is_signal = false;
    int number = 0;  ///< exit status, or the signal's number
  };
  /// Waits until the group has ended, for `limit` at most. What outlives the command itself: it is killed
  /// where the command was killed, and given some seconds else.
  std::optional<End> wait(Duration limit);

  /// The pipe of its stdout, for wait_for_input(); -1 where there is none, or where nothing can come any
  /// more.
  int output() const { return output_.get(); }
  /// Takes what is in the pipe, as far as it fits, without waiting. 0: nothing is there now.
  std::size_t read_output(std::span<char> into);

 private:
  Child(pid_t group, Descriptor output) : group_(group), output_(std::move(output)) {}
  void reap();

  pid_t group_;  // the leader's number too; 0: nothing is left
  Descriptor output_;
  std::optional<End> end_;
  bool is_over_ = false;
  std::optional<std::chrono::steady_clock::time_point>
      alone_since_;  // the rest of the group, without its leader
};

}  // namespace unbroken
