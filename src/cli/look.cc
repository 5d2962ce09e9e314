#include "cli/look.h"

#include "engine/reader.h"
#include "restore/choose.h"
#include "session/settings.h"

namespace unbroken {

Deadline Look::by() const {
  return seams().within(kCallLimit);
}

Result<std::unique_ptr<Runtime>> open_directory(const std::string& directory) {
  return Runtime::open(directory,
                       {.purpose = RuntimeOptions::Purpose::look, .group = {}, .is_fresh_allowed = false});
}

Result<Look> look_at(const std::string& directory) {
  UNBROKEN_TRY(std::unique_ptr<Runtime> runtime, open_directory(directory));
  auto journal = look_at_run(runtime->seams(), runtime->seams().within(kCallLimit));
  if (!journal.ok()) {
    Error error = std::move(journal).error();
    std::string next = error.next_command();
    if (next.ends_with(" DIR")) next.replace(next.size() - 3, 3, directory);
    return std::move(error).next(std::move(next));
  }
  return Look{std::move(runtime), std::move(journal).value()};
}

Result<const Checkpoint*> choose_any(const History& history, const std::string& at) {
  UNBROKEN_TRY(const At wanted, parse_at(at));
  auto chosen = choose(history, wanted);
  if (!chosen.is(Code::corrupt)) return chosen;
  if (wanted.kind == At::Kind::save) return history.find(wanted.save);
  for (const Checkpoint* c : history.lineage())
    if (c->commit.save.step == wanted.step) return c;
  for (const Checkpoint& c : history.checkpoints())
    if (c.commit.save.step == wanted.step && !c.is_intended) return &c;
  return chosen;
}

Error pointing_to_list(Error error, const std::string& directory) {
  if (!error.next_command().empty()) return error;
  return std::move(error).next("unbroken ls " + directory);
}

}  // namespace unbroken
