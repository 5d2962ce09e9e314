// `unbroken keep`, `unbroken unkeep`: a tag keeps a checkpoint, whatever retention says.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look.h"
#include "restore/decide.h"
#include "session/settings.h"
#include "world/advice.h"

namespace unbroken {

namespace {

struct Wish {
  std::string directory, at, tag;
  bool is_json = false;
};

constexpr const char* kDefaultTag = "kept";

Result<int> tell(const Look& look, const SaveId& save, const Wish& wish) {
  const auto& tags = look.history().find(save)->tags;
  if (wish.is_json) {
    UNBROKEN_DO(print_json({{"name", save.name()}, {"tags", tags}}));
    return 0;
  }
  UNBROKEN_DO(print(tags.empty() ? fmt::format("{} has no tag\n", save.name())
                                 : fmt::format("{} is kept: {}\n", save.name(), fmt::join(tags, ", "))));
  return 0;
}

Result<int> keep(const Wish& wish) {
  const std::string tag = wish.tag.empty() ? kDefaultTag : wish.tag;
  UNBROKEN_DO(check_tag_name(tag));
  UNBROKEN_TRY(Look look, look_at(wish.directory));
  auto chosen = choose_any(look.history(), wish.at);
  if (!chosen.ok()) return pointing_to_list(std::move(chosen).error(), wish.directory);
  const SaveId save = chosen.value()->commit.save;
  if (auto done = look.append(tag_decision({save, tag})); !done.ok())
    return pointing_to_list(std::move(done).error(), wish.directory);
  return tell(look, save, wish);
}

Result<int> unkeep(const Wish& wish) {
  if (!wish.tag.empty()) UNBROKEN_DO(check_tag_name(wish.tag));
  UNBROKEN_TRY(Look look, look_at(wish.directory));
  auto chosen = choose_any(look.history(), wish.at);
  if (!chosen.ok()) return pointing_to_list(std::move(chosen).error(), wish.directory);
  const SaveId save = chosen.value()->commit.save;
  const auto tags = chosen.value()->tags;
  if (tags.empty() || (!wish.tag.empty() && !tags.contains(wish.tag)))
    return pointing_to_list(
        Error(Code::not_found, fmt::format("checkpoint {} has no tag{}{}; it has: {}", save.name(),
                                           wish.tag.empty() ? "" : " ", wish.tag,
                                           tags.empty() ? "none" : fmt::format("{}", fmt::join(tags, ", ")))),
        wish.directory);
  for (const std::string& tag : tags)
    if (wish.tag.empty() || tag == wish.tag)
      if (auto done = look.append(untag_decision({save, tag})); !done.ok())
        return pointing_to_list(std::move(done).error(), wish.directory);
  return tell(look, save, wish);
}

int command(int argc, char** argv, CLI::App& app, const char* about_tag, Result<int> (*body)(const Wish&)) {
  Wish wish;
  app.add_option("DIR", wish.directory, "the run's directory")->required();
  app.add_option("AT", wish.at, kAtHelp)->required();
  app.add_option("--tag", wish.tag, about_tag);
  app.add_flag("--json", wish.is_json, "one JSON object");
  return run_command(app, argc, argv, [&] { return body(wish); });
}

}  // namespace

int keep_command(int argc, char** argv) {
  CLI::App app("Keep a checkpoint until unkeep", "unbroken keep");
  return command(argc, argv, app, "the name of the tag, `kept` without it", keep);
}

int unkeep_command(int argc, char** argv) {
  CLI::App app("Leave a checkpoint to retention again", "unbroken unkeep");
  return command(argc, argv, app, "only this tag; all of them without it", unkeep);
}

}  // namespace unbroken
