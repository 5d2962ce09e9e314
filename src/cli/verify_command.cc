// `unbroken verify`: reads every byte back, from the journal down, and names what is damaged. It repairs
// nothing.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/counting_store.h"
#include "cli/doctor/broken_journal.h"
#include "cli/look.h"
#include "cli/progress.h"
#include "engine/driver.h"
#include "engine/read/reader.h"
#include "engine/read/verify_folds.h"
#include "format/keys.h"
#include "format/run_object.h"
#include "journal/slots.h"
#include "session/settings.h"
#include "unbroken/exit_code.h"

namespace unbroken {

namespace {

struct Verdict {
  std::uint64_t bytes_read = 0;
  std::vector<Damage> errors;
  std::vector<ReadSave::Unread> unread = {};  ///< EIO, EACCES and the like: nothing is known of these
  std::vector<std::string> notes = {};        ///< what the next start puts right
  bool is_ok() const { return errors.empty() && unread.empty(); }
};

struct CheckpointVerdict {
  SaveId save;
  bool is_quarantined;
  Verdict verdict;
  bool is_in_journal = true;
};

struct Report {
  Verdict journal;  ///< and RUN
  std::vector<CheckpointVerdict> checkpoints;
  std::vector<const Verdict*> all() const {
    std::vector<const Verdict*> out{&journal};
    for (const CheckpointVerdict& c : checkpoints) out.push_back(&c.verdict);
    return out;
  }
  bool is_damaged() const {
    return std::ranges::any_of(all(), [](const Verdict* v) { return !v->errors.empty(); });
  }
  bool is_ok() const {
    return std::ranges::all_of(all(), [](const Verdict* v) { return v->is_ok(); });
  }
  /// That not everything could be read, where nothing worse is known.
  std::optional<Error> failure() const {
    if (is_damaged()) return std::nullopt;
    std::optional<Error> first;
    std::size_t count = 0;
    for (const Verdict* v : all()) {
      count += v->unread.size();
      if (!first && !v->unread.empty()) first = v->unread.front().error;
    }
    if (count > 1)
      first = std::move(*first).with(fmt::format("{} objects could not be read; the first", count));
    return first;
  }
};

class Verify {
 public:
  explicit Verify(const Look& look)
      : look_(look),
        store_(look.seams().store),
        seams_{look.seams().clock, look.seams().random, look.seams().executor, store_, look.seams().process} {
  }

  Result<Report> run(const std::string& at) {
    std::vector<const Checkpoint*> wanted;
    if (at.empty()) {
      for (auto c = look_.history().checkpoints().rbegin(); c != look_.history().checkpoints().rend(); ++c)
        if (!c->is_intended) wanted.push_back(&*c);
    } else {
      UNBROKEN_TRY(wanted.emplace_back(), choose_any(look_.history(), at));
    }
    std::uint64_t total = 0;
    for (const Checkpoint* c : wanted) total += c->commit.state_bytes;
    const Progress progress(
        "verifying", total, [this] { return store_.bytes_read(); }, seams_.clock, seams_.executor);
    Report report;
    UNBROKEN_TRY(report.journal, verify_journal());
    for (const Checkpoint* c : wanted) {
      auto read = unbroken::run(seams_, ReadSave(c->commit, ReadSave::Depth::audit), by());
      if (read.is(Code::not_found)) {
        const Damage damage{"data", 0, read.error().what()};
        report.checkpoints.push_back({c->commit.save, c->is_quarantined(), {0, {damage}}});
        continue;
      }
      UNBROKEN_TRY(const ReadSave::Found found, std::move(read));
      if (!found.damage.empty()) {
        UNBROKEN_TRY(const bool is_removed, was_removed(c->commit.save));
        if (is_removed) continue;
      }
      report.checkpoints.push_back(
          {c->commit.save, c->is_quarantined(), {found.bytes_read, found.damage, found.unread}});
    }
    return report;
  }

 private:
  Deadline by() const { return look_.by(); }

  /// The fold stands; whether every slot holds both copies is what was noted while it was read.
  Result<Verdict> verify_journal() {
    Verdict verdict{look_.journal.bytes_read, {}};
    for (const std::uint64_t slot : look_.journal.repaired)
      verdict.errors.push_back({slot_key(slot), 0, "repaired from its second copy"});
    UNBROKEN_TRY(const std::vector<Damage> of_folds, verify_folds(seams_, look_.journal, by()));
    verdict.errors.insert(verdict.errors.end(), of_folds.begin(), of_folds.end());
    UNBROKEN_DO(verify_run_object(verdict));
    return verdict;
  }

  Result<> verify_run_object(Verdict& verdict) {
    const std::string name(kRunKey);
    const auto text = store_.get(kRunKey, kRunBytesMax, by());
    if (text.is(Code::unavailable)) {
      verdict.unread.push_back({name, text.error()});
      return Done{};
    }
    if (text.ok()) verdict.bytes_read += text.value().size();
    UNBROKEN_TRY(RunVerdict run, judge_run(text, look_.history().genesis()->run,
                                           look_.history().newest_attempt() != nullptr));
    if (run.is_damage()) {
      verdict.errors.push_back({name, 0, std::move(run.what)});
    } else if (!run.what.empty()) {
      verdict.notes.push_back(std::move(run.what));
    }
    return Done{};
  }

  /// Retention may be at work while we read.
  Result<bool> was_removed(const SaveId& save) {
    UNBROKEN_TRY(const JournalRead now, look_at_run(seams_, by()));
    const Checkpoint* c = now.history.find(save);
    return c == nullptr || c->is_intended;
  }

  const Look& look_;
  CountingStore store_;
  const Seams seams_;
};

/// Damage first, then what could not be read.
std::vector<Damage> all_errors(const Verdict& verdict) {
  std::vector<Damage> out = verdict.errors;
  for (const auto& [object, error] : verdict.unread) out.push_back({object, 0, "not read: " + error.what()});
  return out;
}

Json to_json(const Verdict& verdict) {
  Json errors = Json::array();
  for (const Damage& d : all_errors(verdict))
    errors.push_back({{"object", d.object}, {"offset", d.offset}, {"what", d.what}});
  return {{"ok", verdict.is_ok()},
          {"bytes_read", verdict.bytes_read},
          {"errors", std::move(errors)},
          {"notes", verdict.notes}};
}

Json to_json(const Report& report) {
  Json checkpoints = Json::array();
  for (const CheckpointVerdict& c : report.checkpoints) {
    Json entry = to_json(c.verdict);
    entry["step"] = c.save.step;
    entry["attempt"] = c.save.attempt;
    entry["try"] = c.save.try_index;
    entry["name"] = c.save.name();
    entry["quarantined"] = c.is_quarantined;
    entry["in_journal"] = c.is_in_journal;
    checkpoints.push_back(std::move(entry));
  }
  return {
      {"ok", report.is_ok()}, {"journal", to_json(report.journal)}, {"checkpoints", std::move(checkpoints)}};
}

std::string row(std::string_view name, const Verdict& verdict, std::string_view remark) {
  const std::string state = verdict.is_ok()          ? painted("ok     ", Colour::green)
                            : verdict.errors.empty() ? painted("unread ", Colour::yellow)
                                                     : painted("damaged", Colour::red);
  std::string out =
      fmt::format("{:<14} {}  {:>10} read{}\n", name, state, format_bytes(verdict.bytes_read), remark);
  for (const Damage& d : all_errors(verdict))
    out += fmt::format("    {}: at byte {}: {}\n", printable(d.object), d.offset, printable(d.what));
  for (const std::string& note : verdict.notes) out += fmt::format("    {}\n", printable(note));
  return out;
}

/// What is wrong with a journal that cannot be folded, and what lies there whole all the same.
Result<Report> report_broken(const std::string& directory, const std::string& at) {
  UNBROKEN_TRY(const std::unique_ptr<Runtime> runtime, open_directory(directory));
  UNBROKEN_TRY(BrokenJournal broken,
               examine_broken_journal(runtime->seams(), at, runtime->seams().within(kCallLimit)));
  Report report;
  report.journal = {broken.bytes_read, std::move(broken.errors)};
  for (LeftSave& left : broken.saves)
    report.checkpoints.push_back({left.commit.save,
                                  left.is_quarantined,
                                  {left.found.bytes_read, left.found.damage, left.found.unread},
                                  left.is_in_journal});
  if (!at.empty() && report.checkpoints.empty())
    report.journal.notes.push_back(fmt::format("no checkpoint {} was found", at));
  return report;
}

Result<> show(const Report& report, const std::optional<Error>& failure, bool is_json) {
  if (is_json) {
    Json json = to_json(report);
    if (failure) json["error"] = unbroken::to_json(*failure);
    return print_json(json);
  }
  std::string text = row("journal, RUN", report.journal, "");
  for (const CheckpointVerdict& c : report.checkpoints)
    text += row(c.save.name(), c.verdict,
                c.is_quarantined  ? "  (quarantined)"
                : c.is_in_journal ? ""
                                  : "  (not in what can be read of the journal)");
  return print(text);
}

Result<int> verify(const std::string& directory, const std::string& at, bool is_json) {
  auto looked = look_at(directory, ReadJournal::Purpose::audit);
  if (looked.is(Code::journal_unreadable)) {
    UNBROKEN_TRY(const Report broken, report_broken(directory, at));
    UNBROKEN_DO(show(broken, looked.error(), is_json));
    return unbroken::report(looked.error(), false);  // the object on stdout is written
  }
  UNBROKEN_TRY(const Look look, std::move(looked));
  auto verified = Verify(look).run(at);
  if (!verified.ok()) return pointing_to_list(std::move(verified).error(), directory);
  const Report& report = verified.value();
  std::optional<Error> failure = report.failure();
  if (failure) failure = pointing_to_list(std::move(*failure), directory);
  UNBROKEN_DO(show(report, failure, is_json));
  if (failure) return unbroken::report(*failure, false);  // the object on stdout is written
  return report.is_damaged() ? static_cast<int>(ExitCode::bad_data) : 0;
}

}  // namespace

int verify_command(int argc, char** argv) {
  CLI::App app("Reads everything back and names what is damaged", "unbroken verify");
  std::string directory, at;
  bool is_json = false;
  app.add_option("DIR", directory, "the run's directory")->required();
  app.add_option("AT", at, std::string(kAtHelp) + "; every checkpoint where it is left out");
  app.add_flag("--json", is_json, "one JSON object");
  return run_command(app, argc, argv, [&] { return verify(directory, at, is_json); });
}

}  // namespace unbroken
