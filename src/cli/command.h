#pragma once
// What every subcommand shares: parsing, errors, colours, and the way out.
//
// The result goes to stdout, everything else to stderr. With --json an error is one object on stdout too.
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace unbroken {

/// Parses argv (argv[0] is the subcommand's name), then calls `body`, which gives the exit status. Help is 0,
/// usage errors 78, an error of the body what exit_code.h says. An error that names no next command gets
/// `--help`.
int run_command(CLI::App& app, int argc, char** argv, const std::function<Result<int>()>& body);
/// While it is set, run_command() hands the options to it and does nothing else: for pages about the program.
void describe_commands_to(std::function<void(const CLI::App&)> describe);
/// Prints an error, which names a next command; its exit status.
int report(const Error& error, bool is_json);
/// {"kind", "exit_code", "message", "next_command"}.
Json to_json(const Error& error);
/// True where --json stands before any "--".
bool wants_json(int argc, char** argv);

/// The result. Errors: unavailable (a full disk behind stdout).
Result<> print(std::string_view text);
Result<> print_json(const Json& json);
/// All that a call has to say, such as its help; the exit status.
int print_alone(std::string_view text);
/// A line for a person, on stderr, as printable() shows it; lost where nobody can read it.
void say(std::string_view text);

enum class Colour : std::uint8_t { plain, red, green, yellow, dim };
/// Colours only where stdout is a terminal and NO_COLOR is not set.
std::string painted(std::string_view text, Colour colour);

}  // namespace unbroken
