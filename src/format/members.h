#pragma once
// Members that several objects of the format share, in their one spelling. A reader notes what is wrong in
// its Fields and goes on.
#include <optional>
#include <string>

#include "base/json.h"
#include "format/receipt.h"

namespace unbroken {

Json member_of(const std::optional<SaveId>& save);  ///< "1200.a3" or null
Json member_of(const OpenRef& open);                ///< {"slot", "sha256"}
Json member_of(const ContentRef& content);          ///< {"bytes", "xxh128"}

SaveId save_member(Fields& fields, const char* key);
std::optional<SaveId> optional_save_member(Fields& fields, const char* key);
OpenRef open_member(Fields& fields, const char* key);
ContentRef content_member(Fields& fields, const char* key);

}  // namespace unbroken
