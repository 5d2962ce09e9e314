#pragma once
// What a manifest says of where a checkpoint came from.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "world/process.h"

namespace unbroken {

/// Words of a command line as one text, quoted as a shell would need them. Values of options whose names end
/// in token, key, password, passwd or secret are left out, as are passwords within addresses; at most 8 KiB.
std::string shown_command(const std::vector<std::string>& words);

/// Host, process, command line, directory, version.
std::map<std::string, std::string> provenance_of(const Process& process, std::string_view directory);

}  // namespace unbroken
