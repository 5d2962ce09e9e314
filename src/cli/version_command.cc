// `unbroken version`.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/commands.h"
#include "format/features.h"
#include "unbroken_version.h"

namespace unbroken {

int version_command(int argc, char** argv) {
  CLI::App app("Version, format and commit", "unbroken version");
  bool is_json = false;
  app.add_flag("--json", is_json, "one JSON object");
  return run_command(app, argc, argv, [&]() -> Result<int> {
    if (is_json)
      UNBROKEN_DO(
          print_json({{"version", UNBROKEN_VERSION}, {"format", kFormat}, {"commit", UNBROKEN_COMMIT}}));
    else
      UNBROKEN_DO(print(
          fmt::format("unbroken {}, format {}, commit {}\n", UNBROKEN_VERSION, kFormat, UNBROKEN_COMMIT)));
    return 0;
  });
}

}  // namespace unbroken
