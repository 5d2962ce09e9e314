// `unbroken doctor`: what is there, what is damaged, why the last life ended, and what to do next. Everything
// is read back; nothing is written, but with --void a record that passes junk at the journal's end.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/counting_store.h"
#include "cli/doctor/broken_journal.h"
#include "cli/look.h"
#include "cli/progress.h"
#include "engine/driver.h"
#include "engine/pace/account.h"
#include "engine/read/reader.h"
#include "engine/read/verify_folds.h"
#include "engine/start/crashes.h"
#include "engine/start/owner.h"
#include "format/keys.h"
#include "format/run_object.h"
#include "journal/slots.h"
#include "journal/void_slot.h"
#include "restore/decide.h"
#include "session/settings.h"
#include "unbroken/exit_code.h"
#include "world/advice.h"

namespace unbroken {

namespace {

constexpr std::size_t kDeathsMin = 2;  // on one checkpoint, until it is said
constexpr std::string_view kDataFolder = kDataPrefix.substr(0, kDataPrefix.size() - 1);

enum class Severity : std::uint8_t { note, warning, error };

std::string_view name_of(Severity severity) {
  return severity == Severity::note ? "note" : severity == Severity::warning ? "warning" : "error";
}

struct Finding {
  Severity severity;
  std::string object, what, next_command;
};

/// How the newest attempt ended, as far as can be seen from here.
struct LastEnd {
  std::uint32_t attempt = 0;
  std::string why;
  std::optional<int> code;
};

struct Diagnosis {
  std::vector<Finding> findings;
  std::optional<LastEnd> last_end;
  bool is_damaged = false, is_resumable = false;
  bool is_ok() const { return !is_damaged && is_resumable; }
  int status() const {
    const ExitCode code = !is_resumable ? ExitCode::nothing_to_resume
                          : is_damaged  ? ExitCode::bad_data
                                        : ExitCode::finished;
    return static_cast<int>(code);
  }
};

class Doctor {
 public:
  Doctor(const Look& look, const std::string& directory)
      : look_(look),
        directory_(directory),
        word_(shell_word(directory)),
        store_(look.seams().store),
        seams_{look.seams().clock, look.seams().random, look.seams().executor, store_, look.seams().process} {
  }

  Result<Diagnosis> run() {
    look_at_directory();
    UNBROKEN_DO(look_at_folds());
    UNBROKEN_DO(look_at_run_object());
    UNBROKEN_DO(look_at_checkpoints());
    UNBROKEN_DO(look_at_space());
    UNBROKEN_DO(look_for_debris());
    look_at_deaths();
    out_.last_end = last_end();
    return std::move(out_);
  }

 private:
  const History& history() const { return look_.history(); }

  void find(Severity severity, std::string object, std::string what, std::string next_command = {}) {
    out_.findings.push_back({severity, std::move(object), std::move(what), std::move(next_command)});
  }
  void find_damage(std::string object, std::string what, std::string next_command) {
    out_.is_damaged = true;
    find(Severity::error, std::move(object), std::move(what), std::move(next_command));
  }
  std::string look_at_path(std::string_view object) const { return path_command(directory_, object); }
  std::string verify_command(const SaveId& save) const {
    return fmt::format("unbroken verify {} {}", word_, save.name());
  }

  void look_at_directory() {
    for (const std::string& note : look_.runtime->notes())
      find(Severity::warning, ".", note.starts_with("warning: ") ? note.substr(9) : note);
    for (const std::uint64_t slot : look_.journal.repaired)
      find_damage(slot_key(slot),
                  "read from its second copy: nothing is lost, but the storage changed a byte",
                  "unbroken verify " + word_);
    look_at_folders();
    if (look_.journal.hint) return;
    if (const auto bytes = store_.get(kHintKey, kHintBytesRead, look_.by()); bytes.is(Code::unavailable))
      find(Severity::warning, std::string(kHintKey), "cannot be read: " + bytes.error().what(),
           look_at_path(kHintKey));
    else
      find(Severity::note, std::string(kHintKey),
           "missing or damaged: it is only asked whether the journal was cut, and the next save writes it "
           "anew");
  }

  /// Those that no checkpoint depends on.
  void look_at_folders() {
    for (const std::string_view folder : {kMetricsPrefix})
      if (const auto names = store_.list(folder, look_.by()); names.is(Code::corrupt)) {
        const std::string_view name = folder.substr(0, folder.size() - 1);
        find(Severity::warning, std::string(name), names.error().what() + ": metrics cannot be kept",
             look_at_path(name));
      }
  }

  Result<> look_at_folds() {
    UNBROKEN_TRY(const std::vector<Damage> found, verify_folds(seams_, look_.journal, look_.by()));
    for (const Damage& d : found)
      find_damage(d.object, d.what + ": nothing is lost, a start reads the records instead",
                  "unbroken verify " + word_);
    return Done{};
  }

  Result<> look_at_run_object() {
    const std::string object(kRunKey);
    UNBROKEN_TRY(const RunVerdict run,
                 judge_run(store_.get(kRunKey, kRunBytesMax, look_.by()), history().genesis()->run,
                           history().newest_attempt() != nullptr));
    if (run.is_damage()) {
      using Kind = RunVerdict::Kind;
      const std::string again =
          ": the journal says the same, so nothing is lost, and the next start makes it again";
      if (run.kind == Kind::foreign)
        find_damage(object, run.what, "unbroken verify " + word_);
      else if (run.kind == Kind::missing)
        find_damage(object, run.what + again, "unbroken ls " + word_);
      else
        find_damage(object, run.what + again + " once it is gone",
                    "rm " + shell_word(look_.runtime->path() + "/RUN"));
    } else if (!run.what.empty()) {
      find(Severity::note, object, run.what);
    }
    return Done{};
  }

  Result<> look_at_checkpoints() {
    std::uint64_t total = 0;
    for (const Checkpoint& c : history().checkpoints()) total += c.is_intended ? 0 : c.commit.state_bytes;
    const Progress progress(
        "reading", total, [this] { return store_.bytes_read(); }, seams_.clock, seams_.executor);
    std::set<SaveId> whole;
    for (const Checkpoint& c : history().checkpoints()) {
      if (c.is_intended) continue;
      UNBROKEN_TRY(const bool is_whole, look_at(c));
      if (is_whole) whole.insert(c.commit.save);
    }
    for (const Checkpoint* c : history().lineage())
      out_.is_resumable = out_.is_resumable || (c->is_good() && whole.contains(c->commit.save));
    if (out_.is_resumable) return Done{};
    if (!history().has_commits())
      find(Severity::error, "journal", "no checkpoint was committed yet, so there is nothing to resume",
           "unbroken ls " + word_);
    else
      find(Severity::error, "journal", "no checkpoint is left that can be resumed", "unbroken ls " + word_);
    return Done{};
  }

  /// True where everything of it can be read.
  Result<bool> look_at(const Checkpoint& c) {
    const SaveId& save = c.commit.save;
    const auto found = unbroken::run(seams_, ReadSave(c.commit, ReadSave::Depth::everything), look_.by());
    if (found.is(Code::not_found)) {
      const bool is_said = !out_.findings.empty() && out_.findings.back().object == kDataFolder;
      if (!is_said) find_damage(std::string(kDataFolder), found.error().what(), look_at_path(kDataFolder));
      return false;
    }
    if (found.is(Code::unavailable)) {
      find(Severity::error, save_prefix(save), fmt::format("cannot be read: {}", found.error().what()),
           verify_command(save));
      out_.is_damaged = true;
      return false;
    }
    if (!found.ok()) return found.error();
    const bool is_whole = found.value().damage.empty();
    if (!is_whole) {
      UNBROKEN_TRY(const JournalRead now, look_at_run(seams_, look_.by()));
      const Checkpoint* still = now.history.find(save);
      if (still == nullptr || still->is_intended) return false;  // retention is at work
    }
    for (const Damage& damage : found.value().damage)
      find_damage(damage.object,
                  fmt::format("checkpoint {}: at byte {}: {}", save.name(), damage.offset, damage.what),
                  verify_command(save));
    if (c.is_quarantined()) {
      out_.is_damaged = true;
      find(Severity::warning, save_prefix(save),
           fmt::format("checkpoint {} was put aside for {}: {}{}", save.name(), c.quarantine->object,
                       c.quarantine->seen, is_whole ? "; now it reads back whole" : ""),
           verify_command(save));
    }
    if (c.commit.health != kHealthOk)
      find(Severity::warning, save_prefix(save),
           fmt::format("checkpoint {} is {}", save.name(), c.commit.health),
           fmt::format("unbroken show {} {}", word_, save.name()));
    return is_whole;
  }

  Result<> look_at_space() {
    std::uint64_t needed = 0;
    for (const Checkpoint& c : history().checkpoints()) needed = std::max(needed, c.commit.state_bytes);
    const auto free = store_.free_bytes(look_.by());
    if (free.ok() && free.value() < needed)
      find(Severity::warning, ".",
           fmt::format("{} are free, the next save needs about {}", format_bytes(free.value()),
                       format_bytes(needed)),
           "df -h " + word_);
    return Done{};
  }

  /// Folders of saves that were never committed.
  Result<> look_for_debris() {
    const auto names = store_.list(kDataPrefix, look_.by());
    if (names.is(Code::corrupt)) return Done{};  // no folder, which was found already
    if (!names.ok()) return names.error();
    for (const std::string& name : names.value()) {
      const auto save = save_from_name(name);
      if (!save || history().find(*save) != nullptr) continue;
      find(Severity::note, save_prefix(*save),
           history().is_dead(*save) ? "left by a save that never came to its end; the next start removes it"
                                    : "a save that is not committed yet, or never will be");
    }
    return Done{};
  }

  /// How it closed, where it did. The hint says so, or the account, where one that was fenced wrote the hint
  /// after it; the account alone knows the status.
  std::optional<LastEnd> closed(const Attempt& attempt) const {
    const auto last = read_account(look_.seams(), history(), look_.by());
    const Account account = last.ok() ? last.value().account : Account{};
    const bool is_told = last.ok() && account.open_slot == attempt.slot && account.is_closed;
    if (!is_told && !closed_open(history(), look_.journal.hint)) return std::nullopt;
    LastEnd end{attempt.open.attempt, "it ended in an orderly way", {}};
    if (is_told) end.code = account.code;
    if (!end.code)
      end.why += ": finished, or stopped with its state saved";
    else if (*end.code == static_cast<int>(ExitCode::finished))
      end.why += ": it came to its end";
    else if (*end.code == static_cast<int>(ExitCode::interrupted))
      end.why += ": it was asked to stop, and its state is saved";
    else if (*end.code == static_cast<int>(ExitCode::interrupted_unsaved))
      end.why += ": it was asked to stop, and what it did last is not saved";
    else
      end.why += ", with an error";
    const std::uint64_t unsaved = is_told ? unsaved_steps(account, attempt) : 0;
    if (unsaved > 0) end.why += fmt::format("; the last {} of its steps are in no checkpoint", unsaved);
    return end;
  }

  /// Lives that took up the newest checkpoint and saved nothing: perhaps they died of it.
  void look_at_deaths() {
    const Attempt* newest = history().newest_attempt();
    if (newest == nullptr || !newest->open.resume || newest->commits > 0 || closed(*newest)) return;
    if (liveness_of_owner(seams_, *newest) == Liveness::alive) return;
    const std::size_t lives = attempts_in_vain(history()) + 1;
    const SaveId& save = *newest->open.resume;
    const auto killer = find_killer(seams_, history(), look_.by());
    if (killer)
      find(Severity::warning, save_prefix(save),
           fmt::format("the last {} attempts crashed of signal {} while they loaded {}: the next start takes "
                       "the one before it, resume=\"{}\" tries it again",
                       killer->lives, killer->signal, save.name(), save.name()),
           verify_command(save));
    else if (lives >= kDeathsMin)
      find(Severity::warning, save_prefix(save),
           fmt::format("the last {} attempts resumed from {} and ended before they saved anything: see what "
                       "they said last",
                       lives, save.name()),
           verify_command(save));
  }

  std::optional<LastEnd> last_end() const {
    const Attempt* newest = history().newest_attempt();
    if (newest == nullptr) return std::nullopt;
    const Owner& owner = newest->open.owner;
    if (auto end = closed(*newest)) return end;
    LastEnd end{newest->open.attempt, {}, {}};
    const Owner here = this_owner(seams_);
    const std::string who = fmt::format("process {} on {}", owner.pid, owner.host);
    const bool is_rebooted = owner.host == here.host && owner.boot_id != here.boot_id;
    const Liveness liveness = liveness_of_owner(seams_, *newest);
    if (owner.device != here.device || owner.inode != here.inode) {
      end.why = fmt::format(
          "it did not end in an orderly way before this directory was copied or moved; it was {}", who);
    } else if (liveness == Liveness::alive) {
      end.why = fmt::format("it goes on: {} is running", who);
    } else if (liveness == Liveness::dead || is_rebooted) {
      end.why = fmt::format("it was killed or crashed: {} is gone{} and closed nothing", who,
                            is_rebooted ? ", its machine was restarted," : "");
      end.code = static_cast<int>(ExitCode::crash);
    } else {
      end.why =
          fmt::format("it did not end in an orderly way, as far as can be seen from here; it was {}", who);
    }
    return end;
  }

  const Look& look_;
  const std::string directory_, word_;
  CountingStore store_;
  const Seams seams_;
  Diagnosis out_;
};

Json to_json(const Diagnosis& diagnosis) {
  Json findings = Json::array();
  for (const Finding& f : diagnosis.findings)
    findings.push_back({{"severity", name_of(f.severity)},
                        {"object", f.object},
                        {"what", f.what},
                        {"next_command", f.next_command.empty() ? Json() : Json(f.next_command)}});
  Json last_end;
  if (const auto& end = diagnosis.last_end)
    last_end = {
        {"attempt", end->attempt}, {"why", end->why}, {"code", end->code ? Json(*end->code) : Json()}};
  return {{"ok", diagnosis.is_ok()},
          {"resumable", diagnosis.is_resumable},
          {"last_end", std::move(last_end)},
          {"findings", std::move(findings)}};
}

std::string to_text(const Diagnosis& diagnosis, const Look* look) {
  std::string out;
  if (look != nullptr) {
    const Checkpoint* newest = look->history().newest();
    out +=
        fmt::format("{}: {}\n", printable(look->runtime->path()),
                    newest == nullptr ? "no checkpoint" : "newest checkpoint " + newest->commit.save.name());
  }
  if (const auto& end = diagnosis.last_end)
    out += fmt::format("attempt {}: {}{}\n", end->attempt, printable(end->why),
                       end->code ? fmt::format(" (as status {})", *end->code) : "");
  for (const Finding& f : diagnosis.findings) {
    const Colour colour = f.severity == Severity::error     ? Colour::red
                          : f.severity == Severity::warning ? Colour::yellow
                                                            : Colour::dim;
    out += fmt::format("{} {}: {}\n", painted(fmt::format("{:<8}", name_of(f.severity)), colour),
                       printable(f.object), printable(f.what));
    if (!f.next_command.empty()) out += fmt::format("         next: {}\n", f.next_command);
  }
  const bool is_warned = std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(),
                                     [](const Finding& f) { return f.severity == Severity::warning; });
  return out + (diagnosis.is_ok()
                    ? is_warned ? "nothing is damaged; mind what is said above\n" : "nothing is wrong\n"
                : diagnosis.is_resumable ? "something is damaged; the run can be resumed\n"
                                         : "nothing can be resumed\n");
}

/// What is wrong with a journal that cannot be folded, and the ways out: nothing resumes from such a run.
Result<Diagnosis> diagnose_broken(const std::string& directory, const Error& why) {
  UNBROKEN_TRY(const std::unique_ptr<Runtime> runtime, open_directory(directory));
  const Seams& seams = runtime->seams();
  UNBROKEN_TRY(const BrokenJournal broken, examine_broken_journal(seams, "", seams.within(kCallLimit)));
  const std::string word = shell_word(directory);
  Diagnosis out;
  out.is_damaged = true;
  std::string rescue, way_out = "put journal/ back from a copy of this directory";
  for (const LeftSave& left : broken.saves) {
    const SaveId& save = left.commit.save;
    if (!left.is_whole()) continue;
    const std::string command =
        fmt::format("unbroken import {} --to {} --step {}",
                    shell_word(fmt::format("{}/{}", runtime->path(), left.found.state->shard)),
                    shell_word(fmt::format("{}.step-{}", runtime->path(), save.step)), save.step);
    if (rescue.empty()) rescue = command;
    out.findings.push_back(
        {Severity::note, save_prefix(save),
         fmt::format("{} reads back whole{}; its tensors can begin a new run", save.name(),
                     left.is_in_journal ? "" : ", though nothing says that it was committed"),
         command});
  }
  std::string next = rescue.empty() ? fmt::format("ls -l {}/journal", word) : rescue;
  if (broken.voidable) {
    way_out += fmt::format(
        "; or give up slot {}: if it was a checkpoint, the run goes on from the one before, and if a process "
        "that trains in it is still alive, end it first",
        *broken.voidable);
    next = fmt::format("unbroken doctor {} --void {}", word, *broken.voidable);
  }
  std::vector<Finding> errors{{Severity::error, "journal", fmt::format("{}: {}", why.what(), way_out), next}};
  for (const Damage& damage : broken.errors)
    errors.push_back({Severity::error, damage.object, damage.what, next});
  out.findings.insert(out.findings.begin(), errors.begin(), errors.end());
  return out;
}

Result<std::uint64_t> parse_slot(const std::string& text) {
  const auto slot = parse_u64(text);
  if (slot.ok()) return slot;
  return Error(Code::bad_argument, fmt::format("--void: \"{}\" is not the number of a slot", text));
}

/// Rule R13, because a person asked for it.
Result<> declare_void(const std::string& directory, std::uint64_t slot) {
  UNBROKEN_TRY(const std::unique_ptr<Runtime> runtime, open_directory(directory));
  const Seams& seams = runtime->seams();
  auto declared = unbroken::run(seams, VoidSlot(slot, seams.draw(), seams.clock.wall_unix_ms()),
                                seams.within(kCallLimit));
  if (!declared.ok()) {
    Error error = std::move(declared).error().with(directory);
    if (error.next_command().empty())
      error = std::move(error).next("unbroken doctor " + shell_word(directory));
    return error;
  }
  say(fmt::format("journal slot {} is void: slot {} says so, and nothing reads it any more", slot, slot + 1));
  return Done{};
}

Result<int> examine(const std::string& directory, const std::optional<std::string>& slot, bool is_json) {
  if (slot) {
    UNBROKEN_TRY(const std::uint64_t number, parse_slot(*slot));
    UNBROKEN_DO(declare_void(directory, number));
  }
  auto looked = look_at(directory, ReadJournal::Purpose::audit);
  Diagnosis diagnosis;
  if (looked.is(Code::journal_unreadable)) {
    UNBROKEN_TRY(diagnosis, diagnose_broken(directory, looked.error()));
  } else {
    if (!looked.ok()) return std::move(looked).error();
    UNBROKEN_TRY(diagnosis, Doctor(looked.value(), directory).run());
  }
  const Look* look = looked.ok() ? &looked.value() : nullptr;
  UNBROKEN_DO(is_json ? print_json(to_json(diagnosis)) : print(to_text(diagnosis, look)));
  return diagnosis.status();
}

}  // namespace

int doctor_command(int argc, char** argv) {
  CLI::App app("What is damaged, why the last life ended, and what to do next", "unbroken doctor");
  std::string directory;
  std::optional<std::string> slot;
  bool is_json = false;
  app.add_option("DIR", directory, "the run's directory")->required();
  app.add_option("--void", slot,
                 "first give up this last, damaged slot of the journal: what it said is lost");
  app.add_flag("--json", is_json, "one JSON object");
  return run_command(app, argc, argv, [&] { return examine(directory, slot, is_json); });
}

}  // namespace unbroken
