#pragma once
// Errors as values. An `Error` says what happened in words for a person and in one `Code` for the caller; a
// code exists only where a caller would act differently on it, and the act is `reaction_of(code)`.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace unbroken {

/// One code per distinct reaction of the caller, nothing finer.
enum class Code : std::uint8_t {
  not_found,           ///< the named object is not there
  bad_argument,        ///< the caller asked for something that cannot be: fix the call
  mismatch,            ///< the saved state and the live state do not fit each other
  corrupt,             ///< bytes of one checkpoint are damaged: an older one may be whole
  journal_unreadable,  ///< the journal is damaged, cut or changed underneath: nothing may be decided on it
  unavailable,         ///< the storage did not do what was asked (EIO, EACCES, ESTALE, a server's 5xx)
  no_space,            ///< no space or quota left
  fenced,              ///< a newer attempt owns the run
  vanished,            ///< collected by retention while it was being read
  late,                ///< the deadline passed
  stopped,             ///< the caller's stop token was raised
  unsaved,             ///< as stopped, and the state at hand could not be saved before
  unsupported,         ///< written by a newer version, or needing what this storage lacks
  bug,                 ///< an invariant of ours does not hold
};

/// What the caller should do next; the only thing that retry loops may look at.
enum class Reaction : std::uint8_t { fix_input, try_older, retry, free_space, stand_down, give_up };

constexpr Reaction reaction_of(Code code) noexcept {
  switch (code) {
    case Code::corrupt:
    case Code::not_found:
      return Reaction::try_older;
    case Code::vanished:
    case Code::unavailable:
      return Reaction::retry;
    case Code::no_space:
      return Reaction::free_space;
    case Code::fenced:
    case Code::stopped:
    case Code::unsaved:
      return Reaction::stand_down;
    case Code::bad_argument:
    case Code::mismatch:
      return Reaction::fix_input;
    case Code::journal_unreadable:
    case Code::late:
    case Code::unsupported:
    case Code::bug:
      break;
  }
  return Reaction::give_up;
}

/// Name of a code as it stands in logs: "not_found".
std::string_view name_of(Code code) noexcept;

/// Call site. std::source_location is missing from one of the supported compilers.
struct Where {
  const char* file;
  unsigned line;
  static constexpr Where here(const char* file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

/// Build it directly (never through make_unique and the like), so that the recorded line is the caller's.
class [[nodiscard]] Error {
 public:
  Error(Code code, std::string what, Where at = Where::here())
      : code_(code), at_(at), what_(std::move(what)) {}
  Code code() const noexcept { return code_; }
  /// "shard 3 of step 1200: checksum is 9f.., index says 41..".
  const std::string& what() const noexcept { return what_; }
  Where at() const noexcept { return at_; }
  /// The errno behind it; 0 where the system said nothing.
  int system_error() const noexcept { return system_error_; }
  /// The command a person should run next; empty when the text says it all.
  const std::string& next_command() const noexcept { return next_command_; }
  /// Prefixes who was doing what to which object: "shard 3 of step 1200: fsync: EIO".
  Error with(std::string_view doing) && {
    what_.insert(0, std::string(doing) + ": ");
    return std::move(*this);
  }
  Error from_system(int number) && {
    system_error_ = number;
    return std::move(*this);
  }
  Error next(std::string command) && {
    next_command_ = std::move(command);
    return std::move(*this);
  }

 private:
  Code code_;
  int system_error_ = 0;
  Where at_;
  std::string what_;
  std::string next_command_;
};

}  // namespace unbroken
