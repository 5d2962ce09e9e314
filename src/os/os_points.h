#pragma once
// Dies at a named point when the environment asks for it, so that a drill of the shipped program kills
// exactly where the simulator does.
//   UNBROKEN_KILL="commit.before_append:3:kill"   the third pass of that point raises SIGKILL (kill), SIGTERM
//                                                 (term) or SIGSTOP (stop) in this process
//   UNBROKEN_POINT_LOG=FILE                       each pass of any point appends its name as one line
#include "base/result.h"
#include "world/process.h"

namespace unbroken {

/// Errors: bad_argument for what is no POINT:PASS:kill|term|stop.
Result<> check_kill_plan(const std::string& text);

/// Errors: bad_argument for a malformed variable; those of opening the log. Does nothing where neither is
/// set. For a whole process, before its first point; forks are left alone.
Result<> install_points(const Process& process);

}  // namespace unbroken
