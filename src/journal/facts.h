#pragma once
// The bodies of records: the members of each fact are listed once, for writing and for reading.
#include <string>
#include <string_view>

#include "base/json.h"
#include "journal/record.h"

namespace unbroken {

/// Texts for people are made fit; what else would not read back is found by whoever reads it.
Json body_of(const Fact& fact);
/// Errors: corrupt; unsupported (a critical type, format or feature of a later version).
Result<Fact> fact_from(const std::string& type, bool is_critical, const Json& body);

/// What a reader accepts of a text; a writer of text for people cuts to it.
inline constexpr std::size_t kWordBytes = 64, kNameBytes = 256, kWhyBytes = 1024;

}  // namespace unbroken
