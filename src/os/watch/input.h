#pragma once
// Waiting for whichever of several files has something to read.
#include <initializer_list>

#include "world/clock.h"

namespace unbroken {

/// Returns when one of the open files can be read, after `limit` at the latest. Numbers below 0 are left out.
void wait_for_input(std::initializer_list<int> files, Duration limit);

}  // namespace unbroken
