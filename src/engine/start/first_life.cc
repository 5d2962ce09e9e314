#include "engine/start/first_life.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/driver.h"
#include "format/keys.h"
#include "format/run_object.h"
#include "journal/append.h"
#include "restore/decide.h"
#include "world/advice.h"

namespace unbroken {

namespace {

/// What says that this job has lived before; empty where nothing does.
std::string sign_of_earlier_life(const Process& process) {
  for (const char* name : {"SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"}) {
    const auto value = process.env(name);
    if (value && value->find_first_not_of('0') != std::string::npos)
      return fmt::format("{}={}", name, *value);
  }
  if (process.env("UNBROKEN_RESUMED") == "1") return "UNBROKEN_RESUMED=1";
  return {};
}

Result<> create_run_object(const Seams& seams, const Genesis& genesis, const Deadline& by) {
  UNBROKEN_TRY(const std::string text,
               encode_run({.uuid = genesis.run, .format = genesis.format, .features = {}}));
  // A lost answer says nothing: ask again until the name is there.
  for (auto how = Created::unknown; how == Created::unknown;) {
    UNBROKEN_TRY(how, seams.store.create(kRunKey, as_bytes(text), by));
  }
  return seams.store.sync("", by);
}

}  // namespace

Result<> check_may_start_fresh(const Seams& seams, bool is_fresh_allowed, bool has_sign, const Deadline& by) {
  const std::string path = seams.store.identity().path;
  UNBROKEN_TRY(const std::vector<std::string> names, seams.store.list("", by));
  for (const std::string_view ours : kSignsOfARun) {
    if (std::find(names.begin(), names.end(), ours) != names.end())
      return Error(Code::journal_unreadable, fmt::format("{} holds \"{}\" of a run but no journal: nothing "
                                                         "is started beside a run that lost its journal",
                                                         path, ours))
          .next(fmt::format("unbroken doctor {}", shell_word(path)));
  }
  UNBROKEN_TRY(const std::vector<std::string> slots, seams.store.list(kJournalPrefix, by));
  if (!slots.empty())
    return Error(Code::journal_unreadable,
                 fmt::format("{}: the journal has no slot 0 but \"journal/{}\"", path, slots.front()))
        .next(fmt::format("unbroken doctor {}", shell_word(path)));
  if (has_sign && !is_fresh_allowed)
    return Error(Code::not_found, fmt::format("{} is empty: there is no checkpoint to resume from", path))
        .next("ls -la " + shell_word(path));
  return check_no_earlier_life(seams.process, path, is_fresh_allowed);
}

Result<> check_no_earlier_life(const Process& process, const std::string& path, bool is_fresh_allowed) {
  const std::string sign = sign_of_earlier_life(process);
  if (sign.empty() || is_fresh_allowed) return Done{};
  return Error(Code::not_found,
               fmt::format("{} is empty or missing although {} says that this job ran before: is it the "
                           "right directory, and is it mounted? "
                           "If the first life ended before its first step, start once with fresh=True",
                           path, sign))
      .next("ls -la " + shell_word(path));
}

Result<History> create_run(const Seams& seams, History history, const Deadline& by) {
  Genesis genesis;
  const std::uint64_t high = seams.random.next();
  genesis.run = uuid_from(high, seams.random.next());
  Append append(std::move(history), seams.draw(), seams.clock.wall_unix_ms(), genesis_decision(genesis));
  UNBROKEN_TRY(Appended appended, run(seams, std::move(append), by));
  UNBROKEN_DO(create_run_object(seams, *appended.history.genesis(), by));
  return std::move(appended.history);
}

Result<> check_run_object(const Seams& seams, const History& history, std::vector<std::string>& notes,
                          const Deadline& by) {
  using Kind = RunVerdict::Kind;
  const Genesis& genesis = *history.genesis();
  UNBROKEN_TRY(const RunVerdict run, judge_run(seams.store.get(kRunKey, kRunBytesMax, by), genesis.run,
                                               history.newest_attempt() != nullptr));
  const std::string path = seams.store.identity().path;
  if (run.kind == Kind::foreign)
    return Error(Code::journal_unreadable, fmt::format("{}/RUN {}", path, run.what))
        .next(fmt::format("unbroken doctor {}", shell_word(path)));
  if (run.kind == Kind::damaged || run.kind == Kind::repaired)
    notes.push_back(
        fmt::format("warning: {}/RUN is damaged; the journal says which run this is: run `rm {}`, and the "
                    "next start makes it "
                    "again",
                    path, shell_word(path + "/RUN")));
  if (run.kind == Kind::missing)
    notes.push_back(fmt::format(
        "warning: {}/RUN was lost and is made again, as the journal says which run this is: run `unbroken "
        "verify {}`",
        path, shell_word(path)));
  const bool is_there = run.kind != Kind::missing && run.kind != Kind::unwritten;
  return is_there ? Result<>(Done{}) : create_run_object(seams, genesis, by);
}

}  // namespace unbroken
