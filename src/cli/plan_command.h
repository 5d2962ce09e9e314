#pragma once
// `unbroken plan` and `unbroken simulate`: what to expect of a job, in closed form and event by event.
//
// argv[0] is the name of the subcommand. The result goes to stdout, everything else to stderr; the return
// value is the exit status: 0, 78 for anything that was asked for wrongly (naming the flag, nothing planned
// on stdout), 74 for a file that cannot be read or written. With --json an error is an object on stdout.
namespace unbroken {

int plan_command(int argc, char** argv);
int simulate_command(int argc, char** argv);
/// Why a run saves as often as it does. 66 where no save was made.
int explain_command(int argc, char** argv);

}  // namespace unbroken
