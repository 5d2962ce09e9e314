#include "cli/keep/lapse.h"

#include <fmt/format.h>

#include "engine/driver.h"
#include "engine/pin/watch.h"
#include "filestore/file_store.h"
#include "os/os_fs.h"

namespace unbroken {

namespace {

constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 20;

/// $XDG_STATE_HOME/unbroken, ~/.local/state/unbroken; empty where neither is known.
std::string state_folder(const Process& process) {
  const auto of = [&](const char* variable) { return process.env(variable).value_or(""); };
  if (const std::string state = of("XDG_STATE_HOME"); state.starts_with('/')) return state + "/unbroken";
  const std::string home = of("HOME");
  return home.starts_with('/') ? home + "/.local/state/unbroken" : "";
}

}  // namespace

Result<> let_pins_lapse(Look& look) {
  const Seams& seams = look.seams();
  const std::string folder = state_folder(seams.process);
  auto fs = folder.empty() ? Error(Code::not_found, "") : OsFs::open(folder, {.is_created = true});
  if (!fs.ok()) return Done{};
  FileStore kept(*fs.value(), seams.clock, seams.random, {.path = folder});
  const std::string name = fmt::format("pins-{}", look.history().genesis()->run);
  const std::string boot = seams.process.self().boot_id;
  const auto before = kept.get(name, kBytesMax, look.by());
  PinWatch watch = PinWatch::decode(before.ok() ? before.value() : "", boot);
  const auto append = [&](Decide decide) { return look.append(std::move(decide)); };
  auto done = let_pins_lapse(seams, look.history(), watch, append, look.by());
  (void)(watch.is_empty() ? kept.remove(name, look.by())
                          : kept.advise(name, as_bytes(watch.encode(boot)), look.by()));
  return done;
}

}  // namespace unbroken
