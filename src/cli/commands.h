#pragma once
// The subcommands that look at a run, and the drill. argv[0] is the subcommand's name; the value is the exit
// status.
namespace unbroken {

int ls_command(int argc, char** argv);
int show_command(int argc, char** argv);
int verify_command(int argc, char** argv);
int diff_command(int argc, char** argv);
int drill_command(int argc, char** argv);
int keep_command(int argc, char** argv);
int unkeep_command(int argc, char** argv);
int rm_command(int argc, char** argv);
int export_command(int argc, char** argv);
int import_command(int argc, char** argv);
int doctor_command(int argc, char** argv);
int trace_command(int argc, char** argv);
int version_command(int argc, char** argv);

}  // namespace unbroken
