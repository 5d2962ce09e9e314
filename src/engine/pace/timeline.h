#pragma once
// The timeline of an attempt: a line for each checkpoint that was read back, with what its phases took, for
// `unbroken trace`. Advisory: appended without sync, torn where a life ended in it.
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/seams.h"

namespace unbroken {

struct SavedTimes {
  SaveId save;
  std::uint64_t open_slot = 0;  ///< of the attempt's OPEN; the lines of another one are not believed
  std::int64_t at_unix_ms = 0;  ///< when the loop stopped for it
  double wait_s = 0;            ///< from then until it went on, which the others count from
  double staged_s = 0;          ///< until all was copied
  double durable_s = 0;         ///< until it was durable
  double verified_s = 0;        ///< until it was read back
  std::uint64_t bytes = 0;
  std::uint64_t later_bytes = 0;  ///< of these, copied while the loop went on
  double cpu_s = 0;               ///< of processors, until it was durable; 0 where it was not measured
};

/// "metrics/a0003.saves".
std::string timeline_key(std::uint32_t attempt);
/// One line, with its end.
std::string timeline_line(const SavedTimes& times);
/// In the order of the file; lines that are torn, damaged or of another OPEN are left out, and a file that
/// cannot be read is an empty one.
std::vector<SavedTimes> read_timeline(const Seams& seams, std::uint32_t attempt, std::uint64_t open_slot,
                                      const Deadline& by);

}  // namespace unbroken
