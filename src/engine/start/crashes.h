#pragma once
// A checkpoint may be whole and yet crash whoever loads it. A process that crashes between its OPEN and its
// first step leaves a line in the run (os/crash_note.h), so that later lives need not die of it for ever: one
// that was killed from outside, or whose machine went down, leaves none.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/seams.h"
#include "journal/history.h"

namespace unbroken {

/// Lines "MARK SIGNAL". Advisory.
inline constexpr std::string_view kCrashesKey = "metrics/crashes";

/// What the lines of a process begin with: 32 hex digits.
std::string crash_mark(const ProcessIdentity& process);

struct Killer {
  SaveId save;
  std::size_t lives = 0;  ///< newest attempts in a row that crashed on it
  int signal = 0;         ///< of the last one
};
/// What the newest attempts, two at least, crashed on before they saved anything. Nothing is read where the
/// journal alone says that there is none.
std::optional<Killer> find_killer(const Seams& seams, const History& history, const Deadline& by);

}  // namespace unbroken
