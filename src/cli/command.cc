#include "cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "base/shown.h"
#include "base/utf8.h"
#include "os/os_process.h"
#include "unbroken/exit_code.h"

namespace unbroken {

bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i)
    if (std::strcmp(argv[i], "--json") == 0) return true;
  return false;
}

namespace {

std::function<void(const CLI::App&)>& describer() {
  static std::function<void(const CLI::App&)> set;
  return set;
}

}  // namespace

void describe_commands_to(std::function<void(const CLI::App&)> describe) {
  describer() = std::move(describe);
}

int run_command(CLI::App& app, int argc, char** argv, const std::function<Result<int>()>& body) {
  if (describer()) {
    describer()(app);
    return 0;
  }
  const bool is_json = wants_json(argc, argv);
  const std::string help = fmt::format("unbroken {} --help", argv[0]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help
    std::ostringstream text;
    app.exit(e, text, text);
    return print_alone(text.str());
  } catch (const CLI::ParseError& e) {
    return report(Error(Code::bad_argument, e.what()).next(help), is_json);
  }
  auto status = body();
  if (status.ok()) return status.value();
  Error error = std::move(status).error();
  if (error.next_command().empty()) error = std::move(error).next(help);
  return report(error, is_json);
}

Json to_json(const Error& error) {
  const ErrorKind kind = kind_of(error.code());
  return {{"kind", kind.name},
          {"exit_code", static_cast<int>(kind.exit_code)},
          {"message", error.what()},
          {"next_command", error.next_command()}};
}

int report(const Error& error, bool is_json) {
  if (is_json) (void)print_json({{"error", to_json(error)}});
  say(fmt::format("error: {}: try `{}`", shown(error), error.next_command()));
  return static_cast<int>(kind_of(error.code()).exit_code);
}

Result<> print(std::string_view text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (is_written && std::fflush(stdout) == 0) return Done{};
  const bool is_full = errno == ENOSPC;
  return Error(is_full ? Code::no_space : Code::unavailable,
               fmt::format("the result could not be written: {}", std::strerror(errno)))
      .next(is_full ? "df -h" : "ls -lL /dev/stdout");
}

int print_alone(std::string_view text) {
  const auto printed = print(text);
  return printed.ok() ? 0 : report(printed.error(), false);
}

Result<> print_json(const Json& json) {
  return print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void say(std::string_view text) {
  const std::string out = printable(text) + '\n';
  std::fwrite(out.data(), 1, out.size(), stderr);
}

std::string painted(std::string_view text, Colour colour) {
  static const bool is_coloured = [] {
    const auto no_colour = OsProcess().env("NO_COLOR");
    return ::isatty(STDOUT_FILENO) == 1 && (!no_colour || no_colour->empty());
  }();
  if (!is_coloured || colour == Colour::plain) return std::string(text);
  const int code = colour == Colour::red      ? 31
                   : colour == Colour::green  ? 32
                   : colour == Colour::yellow ? 33
                                              : 2;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace unbroken
