// `unbroken verify`: reads every byte back, from the journal down, and names what is damaged. It repairs
// nothing.
#include <fmt/format.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/counting_store.h"
#include "cli/look.h"
#include "cli/progress.h"
#include "engine/driver.h"
#include "engine/reader.h"
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
};

struct CheckpointVerdict {
  SaveId save;
  bool is_quarantined;
  Verdict verdict;
};

struct Report {
  Verdict journal;  ///< and RUN
  std::vector<CheckpointVerdict> checkpoints;
  bool is_ok() const {
    bool ok = journal.errors.empty();
    for (const CheckpointVerdict& c : checkpoints) ok = ok && c.verdict.errors.empty();
    return ok;
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
      UNBROKEN_TRY(const ReadSave::Found found,
                   unbroken::run(seams_, ReadSave(c->commit, ReadSave::Depth::everything), by()));
      if (!found.damage.empty()) {
        UNBROKEN_TRY(const bool is_removed, was_removed(c->commit.save));
        if (is_removed) continue;
      }
      report.checkpoints.push_back({c->commit.save, c->is_quarantined(), {found.bytes_read, found.damage}});
    }
    return report;
  }

 private:
  Deadline by() const { return look_.by(); }

  /// The fold stands; whether every slot holds both copies is what was noted while it was read.
  Result<Verdict> verify_journal() {
    Verdict verdict;
    for (std::uint64_t slot = 0; slot < look_.history().next_slot(); ++slot) {
      UNBROKEN_TRY(const std::string bytes, store_.get(slot_key(slot), kRecordBytesRead, by()));
      verdict.bytes_read += bytes.size();
    }
    for (const std::uint64_t slot : look_.journal.repaired)
      verdict.errors.push_back({slot_key(slot), 0, "repaired from its second copy"});
    auto text = store_.get(run_key(), kRunBytesMax, by());
    if (text.ok()) verdict.bytes_read += text.value().size();
    const auto what = what_is_wrong_with_run(text);
    if (!what.ok()) return std::move(what).error();
    if (!what.value().empty()) verdict.errors.push_back({run_key(), 0, what.value()});
    return verdict;
  }

  Result<std::string> what_is_wrong_with_run(const Result<std::string>& text) const {
    if (text.is(Code::not_found)) return std::string("missing");
    if (!text.ok() && !text.is(Code::corrupt)) return text.error();
    if (!text.ok()) return text.error().what();
    const auto opened = decode_run(text.value());
    if (opened.is(Code::unsupported)) return opened.error();
    if (!opened.ok()) return opened.error().what();
    if (opened.value().run.uuid != look_.history().genesis()->run)
      return fmt::format("belongs to run {}, the journal to run {}", opened.value().run.uuid,
                         look_.history().genesis()->run);
    return std::string(opened.value().is_repaired ? "repaired from its second copy" : "");
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

Json to_json(const Verdict& verdict) {
  Json errors = Json::array();
  for (const Damage& d : verdict.errors)
    errors.push_back({{"object", d.object}, {"offset", d.offset}, {"what", d.what}});
  return {{"ok", verdict.errors.empty()}, {"bytes_read", verdict.bytes_read}, {"errors", std::move(errors)}};
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
    checkpoints.push_back(std::move(entry));
  }
  return {
      {"ok", report.is_ok()}, {"journal", to_json(report.journal)}, {"checkpoints", std::move(checkpoints)}};
}

std::string row(std::string_view name, const Verdict& verdict, std::string_view remark) {
  const bool is_ok = verdict.errors.empty();
  std::string out = fmt::format("{:<14} {}  {:>10} read{}\n", name,
                                painted(is_ok ? "ok     " : "damaged", is_ok ? Colour::green : Colour::red),
                                format_bytes(verdict.bytes_read), remark);
  for (const Damage& d : verdict.errors)
    out += fmt::format("    {}: at byte {}: {}\n", d.object, d.offset, d.what);
  return out;
}

Result<int> verify(const std::string& directory, const std::string& at, bool is_json) {
  UNBROKEN_TRY(const Look look, look_at(directory));
  auto verified = Verify(look).run(at);
  if (!verified.ok()) return pointing_to_list(std::move(verified).error(), directory);
  const Report& report = verified.value();
  if (is_json) {
    UNBROKEN_DO(print_json(to_json(report)));
  } else {
    std::string text = row("journal, RUN", report.journal, "");
    for (const CheckpointVerdict& c : report.checkpoints)
      text += row(c.save.name(), c.verdict, c.is_quarantined ? "  (quarantined)" : "");
    UNBROKEN_DO(print(text));
  }
  return report.is_ok() ? 0 : static_cast<int>(ExitCode::bad_data);
}

}  // namespace

int verify_command(int argc, char** argv) {
  CLI::App app("Reads everything back and names what is damaged", "unbroken verify");
  std::string directory, at;
  bool is_json = false;
  app.add_option("DIR", directory, "the run's directory")->required();
  app.add_option("AT", at, "newest, 1200 or 1200.a3; every checkpoint where it is left out");
  app.add_flag("--json", is_json, "one JSON object");
  return run_command(app, argc, argv, [&] { return verify(directory, at, is_json); });
}

}  // namespace unbroken
