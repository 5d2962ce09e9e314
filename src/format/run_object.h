#pragma once
// The object RUN: who this run is. Sealed twice; written after GENESIS and never changed.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/features.h"

namespace unbroken {

inline constexpr std::uint64_t kRunBytesMax = 65536;

struct RunObject {
  std::string uuid;  ///< 8-4-4-4-12 lower-case hex digits
  std::uint32_t format = kFormat;
  Features features;
  friend bool operator==(const RunObject&, const RunObject&) = default;
};

/// 16 random bytes as a version 4 UUID.
std::string uuid_from(std::uint64_t high, std::uint64_t low);
bool is_uuid(std::string_view text);

/// Errors: bad_argument.
Result<std::string> encode_run(const RunObject& run);
struct OpenedRun {
  RunObject run;
  bool is_repaired = false;  ///< only the second copy was whole
};
/// Errors: corrupt, unsupported.
Result<OpenedRun> decode_run(std::string_view text);

/// What is to be thought of RUN, wherever it is looked at.
struct RunVerdict {
  enum class Kind : std::uint8_t {
    whole,
    unwritten,  ///< not there, as a kill after GENESIS leaves it: the next start makes it
    missing,    ///< not there although a start went past it
    repaired,   ///< only the second copy was whole
    damaged,    ///< no RUN; the journal says the same
    foreign,    ///< the RUN of another run
  };
  Kind kind = Kind::whole;
  std::string what = {};  ///< empty where it is whole
  /// The storage changed or lost something.
  bool is_damage() const { return kind != Kind::whole && kind != Kind::unwritten; }
};
/// `text` is what came of reading it, `run` whom the journal names, `has_opened` whether it holds an OPEN:
/// every start sees to RUN before it. Errors: unsupported; those of `text` that say nothing about RUN.
Result<RunVerdict> judge_run(const Result<std::string>& text, std::string_view run, bool has_opened);

}  // namespace unbroken
