#pragma once
// Names of the closed list of container kinds, shared by the reader, the writer and diff of trees.
#include <string_view>

#include "state/tree.h"

namespace unbroken {

std::string_view name_of(List::Kind kind);
std::string_view name_of(Dict::Kind kind);
bool is_set(const List& list);

}  // namespace unbroken
