#pragma once
// The one question that long calls ask between their pieces.
#include "world/clock.h"

namespace unbroken {

/// Asked before each piece, so that no call runs on past its deadline. Errors: stopped, late.
Result<> check_time(Instant now, const Deadline& by);

}  // namespace unbroken
