#include "cli/look.h"

#include <fmt/format.h>

#include "cli/command.h"
#include "engine/driver.h"
#include "engine/start/owner.h"
#include "restore/choose.h"
#include "session/settings.h"
#include "world/advice.h"

namespace unbroken {

Deadline Look::by() const {
  return seams().within(kCallLimit);
}

Result<> Look::append(Decide decide) {
  UNBROKEN_TRY(
      Appended appended,
      run(seams(), Append(history(), seams().draw(), seams().clock.wall_unix_ms(), std::move(decide)), by()));
  has_appended(std::move(appended.history));
  return Done{};
}

void Look::has_appended(History now) {
  say_closed(seams(), now, closed_open(history(), journal.hint), by());
  journal.history = std::move(now);
}

namespace {

/// Says where, and what to run next, unless the error says it itself.
Error located(Error error, const std::string& directory, std::string command) {
  if (error.what().find(directory) == std::string::npos) error = std::move(error).with(directory);
  if (!error.next_command().empty()) return error;
  return std::move(error).next(std::move(command));
}

/// Of the directory itself.
Error pointing_to_path(Error error, const std::string& directory) {
  return located(std::move(error), directory, path_command(directory));
}

}  // namespace

Result<std::unique_ptr<Runtime>> open_directory(const std::string& directory) {
  auto opened = Runtime::open(
      directory, {.purpose = RuntimeOptions::Purpose::look, .group = {}, .is_fresh_allowed = false});
  if (!opened.ok()) return pointing_to_path(std::move(opened).error(), directory);
  return opened;
}

Result<Look> look_at(const std::string& directory, ReadJournal::Purpose purpose) {
  UNBROKEN_TRY(std::unique_ptr<Runtime> runtime, open_directory(directory));
  auto journal = look_at_run(runtime->seams(), runtime->seams().within(kCallLimit), purpose);
  if (!journal.ok()) return pointing_to_path(std::move(journal).error(), directory);
  return Look{std::move(runtime), std::move(journal).value()};
}

Result<const Checkpoint*> choose_any(const History& history, const std::string& at) {
  UNBROKEN_TRY(const At wanted, parse_at(at));
  auto chosen = choose(history, wanted);
  if (!chosen.is(Code::corrupt)) return chosen;
  if (wanted.kind == At::Kind::save) return history.find(wanted.save);
  const Checkpoint* tagged = nullptr;
  for (const Checkpoint& c : history.checkpoints())
    if (wanted.kind == At::Kind::tag && !c.is_intended && c.tags.contains(wanted.name)) tagged = &c;
  if (tagged != nullptr) return tagged;
  for (const Checkpoint* c : history.lineage())
    if (c->commit.save.step == wanted.step) return c;
  for (const Checkpoint& c : history.checkpoints())
    if (c.commit.save.step == wanted.step && !c.is_intended) return &c;
  return chosen;
}

Error pointing_to_list(Error error, const std::string& directory) {
  return located(std::move(error), directory, "unbroken ls " + shell_word(directory));
}

Result<Reader> read_at(const Look& look, const std::string& directory, const std::string& at,
                       std::string_view doing, Hold hold) {
  auto reader = Reader::open(look.seams(), at, look.by(), hold);
  if (!reader.ok()) return pointing_to_list(std::move(reader).error(), directory);
  for (const FellBack& fallen : reader.value().fell_back())
    say(fmt::format("warning: checkpoint {} is damaged ({}: {}): {} {}", fallen.save.name(), fallen.object,
                    fallen.what, doing, reader.value().saved().commit.save.name()));
  return reader;
}

}  // namespace unbroken
