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

}  // namespace unbroken
