#include "engine/opening.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/point.h"
#include "engine/driver.h"
#include "engine/start/crashes.h"
#include "engine/start/first_life.h"
#include "engine/start/owner.h"
#include "journal/append.h"
#include "journal/read_journal.h"
#include "restore/decide.h"
#include "world/advice.h"

namespace unbroken {

namespace {

constexpr std::size_t kDeathsMin = 2;  // on one checkpoint, until it is said
constexpr int kRacesMax = 64;          // others were first so many times; falling back ends by itself
constexpr std::size_t kNamedMax = 4;   // of those that were passed over

class Opening {
 public:
  Opening(const Seams& seams, const OpenOptions& options, Loader& loader, const Deadline& by)
      : seams_(seams), options_(options), loader_(loader), by_(by), history_(seams.fold_every) {}

  Result<Opened> run_it() {
    UNBROKEN_DO(read(ReadJournal::Purpose::look));
    if (!history_.genesis()) {
      if (auto may = check_may_start_fresh(seams_, options_.is_fresh_allowed, options_.has_sign, by_);
          !may.ok()) {
        // Unless somebody began the run between the two looks.
        UNBROKEN_DO(read(ReadJournal::Purpose::look));
        if (!history_.genesis()) return std::move(may).error();
      }
    }
    if (!history_.genesis()) {
      UNBROKEN_DO(options_.probe(by_));
      UNBROKEN_TRY(history_, create_run(seams_, std::move(history_), by_));
    } else {
      UNBROKEN_DO(check_run_object(seams_, history_, opened_.notes, by_));
    }
    for (int races = 0; races < kRacesMax;) {
      const std::size_t fell_back = opened_.fell_back.size();
      UNBROKEN_TRY(const bool is_open, try_once());
      if (!is_open) {
        races += opened_.fell_back.size() == fell_back ? 1 : 0;
        continue;
      }
      UNBROKEN_DO(apply_policy());
      if (options_.sweep) options_.sweep(by_);
      opened_.history = std::move(history_);
      opened_.run = opened_.history.genesis()->run;
      return std::move(opened_);
    }
    return Error(Code::unavailable,
                 "the run was taken over by others again and again while it was being opened");
  }

 private:
  Result<> read(ReadJournal::Purpose purpose) {
    UNBROKEN_TRY(JournalRead read, run(seams_, ReadJournal(std::move(history_), purpose), by_));
    history_ = std::move(read.history);
    hint_ = std::move(read.hint);
    for (const std::uint64_t slot : read.repaired)
      opened_.notes.push_back(
          fmt::format("warning: journal slot {} was read from its second copy: run `unbroken verify {}`",
                      slot, path_word()));
    return Done{};
  }

  /// One choice, one OPEN, one load. False: look again.
  Result<bool> try_once() {
    UNBROKEN_DO(check_owner(seams_, history_, hint_, options_.is_takeover));
    const auto killer = find_killer(seams_, history_, by_);
    auto chosen = choose_resume(history_, options_.resume, options_.is_fresh_allowed,
                                killer ? std::optional(killer->save) : std::nullopt);
    if (!chosen.ok()) {
      Error error = nothing_left(std::move(chosen).error());
      return killer ? std::move(error).next("unbroken doctor " + path_word()) : error;
    }
    const Resume resume = std::move(chosen).value();
    if (!resume.save && has_filled_) return nothing_to_fall_back_to();
    is_named_ = options_.resume.kind != At::Kind::newest && !resume.was_carried_out;
    std::optional<SavedState> saved;
    if (resume.save) {
      const Commit commit = history_.find(*resume.save)->commit;
      UNBROKEN_TRY(ReadSave::Found found, run(seams_, ReadSave(commit, ReadSave::Depth::description), by_));
      if (!found.damage.empty()) return on_damage(commit);
      saved = std::move(found.state);
      UNBROKEN_CHECK(saved.has_value());
      saved->run = history_.genesis()->run;
      UNBROKEN_DO(loader_.check(*saved));
    }
    if (options_.admit && opened_.attempt == 0) UNBROKEN_DO(options_.admit(history_));
    UNBROKEN_TRY(const bool is_open, append_open(resume));
    if (!is_open) return false;
    note_killer(killer, resume);
    if (!saved) return true;
    return load(*saved);
  }

  Result<bool> append_open(const Resume& resume) {
    if (!opened_.life.value) opened_.life = seams_.draw();
    UNBROKEN_POINT("open.before_append");
    Open open;
    open.life = opened_.life;
    open.owner = this_owner(seams_);
    const std::vector<FellBack> aside = put_aside_after(resume);
    Append append(history_, seams_.draw(), seams_.clock.wall_unix_ms(),
                  open_decision(resume, options_.is_fresh_allowed, std::move(open)));
    UNBROKEN_TRY(Appended appended, run(seams_, std::move(append), by_));
    history_ = std::move(appended.history);
    if (!appended.record) {
      UNBROKEN_DO(read(ReadJournal::Purpose::look));
      return false;
    }
    opened_.open = {appended.record->slot, appended.digest};
    opened_.attempt = std::get<Open>(appended.record->fact).attempt;
    opened_.resume = resume.save;
    if (resume.was_carried_out && !std::exchange(is_wish_noted_, true))
      opened_.notes.push_back(fmt::format(
          "resume={} was carried out by an earlier attempt: going on from the newest of that lineage",
          options_.resume.text));
    if (!aside.empty())
      opened_.notes.push_back(
          fmt::format("warning: {}: an earlier start put aside what is newer: run `unbroken verify {}`",
                      passed_over(aside), path_word()));
    note_deaths();
    UNBROKEN_POINT("open.appended");
    return true;
  }

  /// What is newer on the lineage, and was put aside by a start that then opened no attempt: nobody said so
  /// yet.
  std::vector<FellBack> put_aside_after(const Resume& resume) const {
    std::vector<FellBack> out;
    if (is_named_ || resume.at.kind != At::Kind::newest) return out;
    for (const Checkpoint* c : history_.lineage()) {
      if (resume.save == c->commit.save) break;
      const auto is_same = [c](const FellBack& fallen) { return fallen.save == c->commit.save; };
      const bool is_told = std::any_of(opened_.fell_back.begin(), opened_.fell_back.end(), is_same);
      if (c->is_quarantined() && !c->is_intended && !is_told)
        out.push_back({c->commit.save, c->quarantine->object, c->quarantine->seen});
    }
    return out;
  }

  /// A checkpoint may be whole and yet kill whoever loads it. Nothing proves that, so nobody is taken
  /// elsewhere.
  void note_deaths() {
    const std::size_t count = attempts_in_vain(history_);
    if (count < kDeathsMin || std::exchange(are_deaths_noted_, true)) return;
    const Attempt& before = history_.attempts()[history_.attempts().size() - 2];
    if (hint_ && hint_->closed == before.slot) return;  // it ended in peace
    const std::vector<const Checkpoint*> lineage = history_.lineage();
    const auto older = std::find_if(std::next(lineage.begin()), lineage.end(),
                                    [](const Checkpoint* c) { return c->is_good(); });
    opened_.notes.push_back(fmt::format(
        "warning: the last {} attempts resumed from {} as well and ended before they saved anything{}", count,
        opened_.resume->name(),
        older == lineage.end()
            ? ""
            : fmt::format(": if it is the checkpoint, resume=\"{}\" goes back to the one before",
                          (*older)->commit.save.name())));
  }

  /// It killed who loaded it, more than once: the one before was taken.
  void note_killer(const std::optional<Killer>& killer, const Resume& resume) {
    if (!killer || !resume.save || resume.save == killer->save) return;
    opened_.notes.push_back(fmt::format(
        "warning: the last {} attempts crashed of signal {} while they loaded {}: going on from {} instead; "
        "resume=\"{}\" tries it again",
        killer->lives, killer->signal, killer->save.name(), resume.save->name(), killer->save.name()));
  }

  Result<bool> load(const SavedState& saved) {
    UNBROKEN_TRY(const std::vector<TensorTarget> targets, loader_.targets(saved));
    has_filled_ = true;
    std::vector<Damage> damage;
    auto loaded = load_shard(seams_, saved.shard, saved.index, saved.chunks, targets, damage, by_);
    if (loaded.is(Code::corrupt)) return on_damage(saved.commit);
    UNBROKEN_DO(loaded);
    opened_.resumed_at_unix_ms = history_.find(saved.commit.save)->at_unix_ms;
    UNBROKEN_POINT("open.loaded");
    return true;
  }

  /// Damage, or deleted meanwhile by the owner that we are about to fence? The journal and a second look
  /// tell.
  Result<bool> on_damage(const Commit& commit) {
    UNBROKEN_DO(read(ReadJournal::Purpose::decide));
    const Checkpoint* c = history_.find(commit.save);
    if (c == nullptr || !c->is_good()) return false;
    UNBROKEN_TRY(const ReadSave::Found again,
                 run(seams_, ReadSave(commit, ReadSave::Depth::everything), by_));
    if (again.damage.empty()) return false;
    const Damage& worst = again.damage.front();
    Append append(
        history_, seams_.draw(), seams_.clock.wall_unix_ms(),
        quarantine_decision(quarantine_of(commit.save, worst, seams_.process.self().host, opened_.life)));
    UNBROKEN_TRY(Appended appended, run(seams_, std::move(append), by_));
    history_ = std::move(appended.history);
    if (is_named_)
      return Error(Code::corrupt, fmt::format("checkpoint {} is damaged: {}: at byte {}: {}",
                                              commit.save.name(), worst.object, worst.offset, worst.what))
          .next(fmt::format("unbroken verify {} {}", path_word(), commit.save.name()));
    opened_.fell_back.push_back({commit.save, worst.object, worst.what});
    return false;
  }

  /// Says, besides, which of them this start has found damaged.
  Error nothing_left(Error error) const {
    if (opened_.fell_back.empty()) return error;
    return Error(error.code(), fmt::format("{}: {}", error.what(), passed_over(opened_.fell_back)))
        .next("unbroken doctor " + path_word());
  }

  /// A start from nothing needs the objects as the caller made them, and they hold what was read.
  Error nothing_to_fall_back_to() const {
    return nothing_left(Error(Code::corrupt,
                              "every checkpoint is damaged, and the live objects hold what was read of one: "
                              "start this program again, to begin from nothing"));
  }

  std::string path_word() const { return shell_word(seams_.store.identity().path); }

  Result<> apply_policy() {
    Append append(history_, seams_.draw(), seams_.clock.wall_unix_ms(),
                  policy_decision(opened_.open, options_.policy));
    UNBROKEN_TRY(Appended appended, run(seams_, std::move(append), by_));
    history_ = std::move(appended.history);
    return Done{};
  }

  const Seams& seams_;
  const OpenOptions& options_;
  Loader& loader_;
  const Deadline& by_;
  History history_;
  std::optional<Hint> hint_;
  Opened opened_;
  bool is_wish_noted_ = false;
  bool are_deaths_noted_ = false;
  bool has_filled_ = false;  // the live objects hold what was read of a checkpoint, perhaps not all of it
  bool is_named_ = false;    // the checkpoint was asked for by name: nothing else will do
};

}  // namespace

std::string passed_over(const std::vector<FellBack>& fell_back) {
  std::string names;
  for (std::size_t i = 0; i < std::min(fell_back.size(), kNamedMax); ++i)
    names += (i == 0 ? "" : ", ") + fell_back[i].save.name();
  if (fell_back.size() > kNamedMax) names += fmt::format(" and {} more", fell_back.size() - kNamedMax);
  const FellBack& first = fell_back.front();
  return fmt::format("{} {} damaged ({}: {}{}{})", names, fell_back.size() == 1 ? "is" : "are",
                     first.save.name(), first.object, first.object.empty() ? "" : ": ", first.what);
}

Result<Opened> open_run(const Seams& seams, const OpenOptions& options, Loader& loader, const Deadline& by) {
  return Opening(seams, options, loader, by).run_it();
}

}  // namespace unbroken
