#include "engine/read/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/driver.h"
#include "engine/start/first_life.h"
#include "engine/start/owner.h"
#include "world/advice.h"

namespace unbroken {

Result<JournalRead> look_at_run(const Seams& seams, const Deadline& by, ReadJournal::Purpose purpose) {
  UNBROKEN_TRY(JournalRead read, unbroken::run(seams, ReadJournal(History(seams.fold_every), purpose), by));
  if (read.history.genesis()) return read;
  UNBROKEN_DO(check_may_start_fresh(seams, true, false, by));
  return Error(Code::not_found, fmt::format("{} is not a run: it is empty or holds nothing of ours",
                                            seams.store.identity().path));
}

Result<> Reader::describe(const Checkpoint& checkpoint, const Deadline& by) {
  last_damage_.reset();
  UNBROKEN_TRY(ReadSave::Found found,
               unbroken::run(seams_, ReadSave(checkpoint.commit, ReadSave::Depth::description), by));
  if (!found.damage.empty()) {
    last_damage_ = found.damage.front();
    return Error(Code::corrupt, fmt::format("checkpoint {} is damaged: {}: {}", checkpoint.commit.save.name(),
                                            last_damage_->object, last_damage_->what))
        .next(fmt::format("unbroken verify {} {}", shell_word(seams_.store.identity().path),
                          checkpoint.commit.save.name()));
  }
  saved_ = std::move(*found.state);
  saved_.run = journal_.history.genesis()->run;
  return Done{};
}

Result<Reader> Reader::open(const Seams& seams, std::string_view at, const Deadline& by, Hold hold) {
  Reader reader(seams, hold);
  if (auto described = reader.choose_and_describe(at, by); !described.ok()) {
    (void)reader.close(by);
    return std::move(described).error();
  }
  return reader;
}

Result<> Reader::choose_and_describe(std::string_view at, const Deadline& by) {
  UNBROKEN_TRY(at_, parse_at(at));
  UNBROKEN_TRY(journal_, look_at_run(seams_, by));
  UNBROKEN_TRY(const Checkpoint* chosen, choose(journal_.history, at_));
  auto held = hold(*chosen, by);
  if (held.is(Code::vanished)) return choose_and_describe(at, by);
  UNBROKEN_DO(held);
  saved_.commit = chosen->commit;
  auto described = describe(*chosen, by);
  if (!described.is(Code::corrupt)) return described;
  if (at_.kind == At::Kind::newest) return next_older(by);
  UNBROKEN_DO(check_not_removed(by));
  return described;
}

Result<> Reader::hold(const Checkpoint& checkpoint, const Deadline& by) {
  if (hold_ == Hold::nothing) return Done{};
  const auto closed = closed_open(journal_.history, journal_.hint);
  if (hold_ == Hold::if_alive && closed) return Done{};
  if (auto released = close(by); !released.ok() && hold_ == Hold::pin) return released;
  auto taken = HeldPin::take(seams_, journal_.history, checkpoint.commit.save, closed, by);
  if (!taken.ok() && (hold_ == Hold::pin || taken.is(Code::vanished))) return std::move(taken).error();
  if (taken.ok()) pin_ = std::move(taken).value();
  return Done{};
}

Result<> Reader::close(const Deadline& by) {
  const auto held = std::exchange(pin_, nullptr);
  return held ? held->release(by) : Result<>(Done{});
}

void Reader::pass_over(FellBack fallen) {
  const auto is_it = [&](const FellBack& known) { return known.save == fallen.save; };
  if (std::none_of(fell_back_.begin(), fell_back_.end(), is_it)) fell_back_.push_back(std::move(fallen));
}

Result<> Reader::next_older(const Deadline& by, std::string_view found) {
  // What was collected meanwhile is not damage: look at the journal as it is now.
  const SaveId failed = saved_.commit.save;
  UNBROKEN_TRY(journal_, look_at_run(seams_, by));
  const Checkpoint* last = journal_.history.find(failed);
  // Where it was removed meanwhile, newer ones count again.
  bool is_older = last == nullptr || last->is_intended;
  if (!is_older && last_damage_) {
    pass_over({failed, last_damage_->object, last_damage_->what});
  } else if (!is_older && !found.empty()) {
    pass_over({failed, {}, std::string(found)});
  }
  for (const Checkpoint* c : journal_.history.lineage()) {
    const bool is_failed = c->commit.save == failed;
    if (is_older && c->is_good()) {
      auto held = hold(*c, by);
      if (held.is(Code::vanished)) {
        last_damage_.reset();
        return next_older(by);
      }
      UNBROKEN_DO(held);
      auto described = describe(*c, by);
      if (!described.is(Code::corrupt)) return described;
      pass_over({c->commit.save, last_damage_->object, last_damage_->what});
    }
    is_older = is_older || is_failed;
  }
  return nothing_left();
}

Error Reader::nothing_left() const {
  constexpr const char* kNone = "there is no checkpoint that can be loaded";
  const std::string path = shell_word(seams_.store.identity().path);
  if (fell_back_.empty()) return Error(Code::not_found, kNone).next("unbroken ls " + path);
  std::set<SaveId> left_out;
  for (const FellBack& fallen : fell_back_) left_out.insert(fallen.save);
  const std::string others = list_of_good(journal_.history, 10, left_out);
  return Error(Code::corrupt,
               fmt::format("{}: {}, and {}", kNone, passed_over(fell_back_),
                           others == "none" ? "none is left" : "on another lineage there are: " + others))
      .next("unbroken doctor " + path);
}

Result<> Reader::check_not_removed(const Deadline& by) const {
  UNBROKEN_TRY(const JournalRead now, look_at_run(seams_, by));
  const Checkpoint* c = now.history.find(saved_.commit.save);
  if (c != nullptr && !c->is_intended) return Done{};
  return Error(Code::vanished, fmt::format("checkpoint {} was removed by retention while it was read",
                                           saved_.commit.save.name()));
}

Result<> Reader::read(const std::vector<TensorTarget>& targets, const Deadline& by) {
  std::vector<Damage> damage;
  auto loaded = load_shard(seams_, saved_.shard, saved_.index, saved_.chunks, targets, damage, by);
  if (!loaded.is(Code::corrupt)) return loaded;
  last_damage_ = damage.front();
  UNBROKEN_DO(check_not_removed(by));
  return std::move(loaded).error().with("checkpoint " + saved_.commit.save.name());
}

}  // namespace unbroken
