#pragma once
// Text for people and scripts: numbers, durations and sizes with units, as the grammar of docs/reference
// says.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace unbroken {

std::vector<std::string_view> split(std::string_view text, char separator);
/// "0012" -> "12", "000" -> "0".
std::string_view trim_zeros(std::string_view digits);
/// Digits only, no sign, no leading zero unless it is "0"; bad_argument otherwise or above `max`.
Result<std::uint64_t> parse_u64(std::string_view text, std::uint64_t max = UINT64_MAX);

/// "250ms", "90s", "10min", "12h", "30d", "2w", "10y" (365 d), "inf"; seconds. A bare number is bad_argument
/// naming `flag` with an example.
Result<double> parse_duration_s(std::string_view text, std::string_view flag);
/// "500GB" (10^9), "64MiB", "1024B"; bytes.
Result<double> parse_bytes(std::string_view text, std::string_view flag);
/// "2GB/s"; bytes per second.
Result<double> parse_rate(std::string_view text, std::string_view flag);

/// "1.5 GiB", "312 B".
std::string format_bytes(std::uint64_t bytes);
/// "0.42ms", "250ms", "1m 30s", "2h 9m", "3d 4h".
std::string format_duration(double seconds);
/// Seconds and milliseconds since 1970 -> "2026-11-29T18:00:00.250Z" (RFC 3339, UTC).
std::string format_time(std::int64_t unix_ms);

/// Shell-style glob over names: `*` any run, `?` one character; no other magic.
bool glob_matches(std::string_view pattern, std::string_view name);

}  // namespace unbroken
