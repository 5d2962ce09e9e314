#pragma once
// Names at the top of a run directory: each stands here and nowhere else. What lies in data/ is named in
// format/keys.h, what lies in journal/ in journal/slots.h.
#include <array>
#include <string_view>

namespace unbroken {

inline constexpr std::string_view kRunKey = "RUN";
inline constexpr std::string_view kHintKey = "hint";
inline constexpr std::string_view kJournalPrefix = "journal/";
inline constexpr std::string_view kDataPrefix = "data/";
inline constexpr std::string_view kFoldPrefix = "fold/";
inline constexpr std::string_view kMetricsPrefix = "metrics/";
inline constexpr std::string_view kPinsPrefix = "pins/";

/// Every folder that this version or a later one keeps there.
inline constexpr std::array<std::string_view, 5> kFolders{"journal", "data", "fold", "metrics", "pins"};
/// What is there only once a run has begun.
inline constexpr std::array<std::string_view, 5> kSignsOfARun{kRunKey, "fold", "data", kHintKey, "metrics"};

}  // namespace unbroken
