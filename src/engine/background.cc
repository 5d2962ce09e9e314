#include "engine/background.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "engine/driver.h"
#include "engine/pace/account.h"
#include "engine/pace/timeline.h"
#include "engine/start/owner.h"
#include "format/keys.h"
#include "journal/fence.h"
#include "restore/decide.h"

namespace unbroken {

namespace {
// Liveness only: a storage that answers nothing for this long fails the job.
constexpr Duration kJobLimit = std::chrono::minutes(30);
// Lines of metrics that wait for the storage; more are dropped.
constexpr std::size_t kMetricsBytesMax = std::size_t{4} << 20;
// They are handed to it together: to wake a thread for each costs more than all else in a step.
constexpr Duration kMetricsWait = std::chrono::seconds(1);
constexpr std::size_t kMetricsBytesWait = std::size_t{64} << 10;

Error never_written() {
  return {Code::stopped, "its writing did not begin"};
}

/// What a copy and the write of it tell each other.
WriteWish wish_of(const std::shared_ptr<Staging>& staging, std::uint64_t bytes_per_s) {
  WriteWish wish{.is_final = [staging](auto from, auto to) { return staging->is_final(from, to); },
                 .bytes_per_s = bytes_per_s};
  if (!staging->is_streamed()) return wish;
  wish.on_written = [staging](auto from, auto to) { staging->written(from, to); };
  wish.on_failed = [staging](const Error& error) { staging->give_up(error); };
  return wish;
}
}  // namespace

Background::Background(const Seams& seams, Opened opened, std::shared_ptr<Status> status, ShardWrites writes)
    : seams_(seams),
      opened_(std::move(opened)),
      status_(std::move(status)),
      writes_(std::move(writes)),
      history_(opened_.history) {}

std::shared_ptr<Background> Background::start(const Seams& seams, Opened opened,
                                              std::shared_ptr<Status> status, ShardWrites writes) {
  auto background = std::shared_ptr<Background>(
      new Background(seams, std::move(opened), std::move(status), std::move(writes)));
  background->status_->set_newest(background->opened_.resume);
  background->post(Lane::strand, [](Background& me) {
    sweep_heartbeats(me.seams_, me.history_, me.by());
    me.collect();  // debris of earlier lives
  });
  return background;
}

Deadline Background::by() const {
  return seams_.within(kJobLimit, stop_.get_token());
}

bool Background::post(Lane lane, std::function<void(Background&)> job) {
  if (enqueue(lane, std::move(job))) return true;
  status_->worry("a background job was refused: the executor is full or stopping");
  return false;
}

bool Background::enqueue(Lane lane, std::function<void(Background&)> job) {
  jobs_.fetch_add(1);
  auto task = [me = shared_from_this(), job = std::move(job)] { me->carry_out(job); };
  if (seams_.executor.post(lane, std::move(task))) return true;
  jobs_.fetch_sub(1);
  return false;
}

void Background::carry_out(const std::function<void(Background&)>& job) {
  try {
    job(*this);
  } catch (const std::exception& e) {
    // A failed check poisons the job at hand; training goes on.
    status_->worry(fmt::format("a background job failed: {}", e.what()));
  }
  jobs_.fetch_sub(1);
  seams_.executor.notify();
}

bool Background::post_for(const std::shared_ptr<Saving>& saving, Lane lane,
                          std::function<void(Background&)> job) {
  const bool is_taken = enqueue(lane, [saving, job = std::move(job)](Background& me) {
    try {
      job(me);
    } catch (const std::exception& e) {
      me.lose(saving, Error(Code::bug, e.what()));
    }
  });
  if (!is_taken) lose(saving, Error(Code::stopped, "the executor is full or stopping"));
  return is_taken;
}

void Background::lose(const std::shared_ptr<Saving>& saving, Error error) {
  if (saving->has_reached(Saving::Stage::durable)) {
    status_->worry(fmt::format("checkpoint {} could not be read back: {}", saving->name(), error.what()));
  } else {
    status_->save_failed(saving->id(), error);
  }
  saving->fail(std::move(error));
}

SaveId Background::next_id(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  if (newest_.step != step) newest_ = {.step = step};
  return {step, opened_.attempt, newest_.next_try++};
}

std::shared_ptr<Saving> Background::saving_of(std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Saving>& saving = newest_.saving;
  if (newest_.step != step || saving == nullptr) return nullptr;
  // A step of an attempt is committed once, so one that is durable stays the save of its step whatever came
  // of reading it back.
  const bool is_given_up = saving->error() && !saving->has_reached(Saving::Stage::durable);
  return is_given_up ? nullptr : saving;
}

void Background::commit(std::shared_ptr<Saving> saving, std::shared_ptr<Staging> staging, SaveFacts facts) {
  {
    const std::lock_guard lock(mutex_);
    newest_.saving = saving;  // whose name next_id() gave
  }
  saves_in_flight_.fetch_add(1);
  flush_metrics();
  const Instant began = seams_.clock.now();
  // The strand copies what is left, should this not be taken.
  if (!staging->is_at_once())
    enqueue(Lane::compute, [saving, staging, times = facts.times, began](Background& me) {
      staging->copy();
      times->staged_s = seconds_of(me.seams_.clock.now() - began) - times->at_once_s.load();
      saving->reach(Saving::Stage::staged);
    });
  const bool is_taken = post_for(saving, Lane::strand,
                                 [saving, staging, facts = std::move(facts), began](Background& me) mutable {
                                   struct Landed {
                                     Background& me;
                                     Staging& staging;
                                     ~Landed() {
                                       staging.give_up(never_written());
                                       me.saves_in_flight_.fetch_sub(1);
                                     }
                                   } landed{me, *staging};
                                   me.commit_on_strand(saving, staging, std::move(facts), began);
                                 });
  if (is_taken) return;
  staging->give_up(never_written());
  saves_in_flight_.fetch_sub(1);
}

void Background::commit_on_strand(const std::shared_ptr<Saving>& saving,
                                  const std::shared_ptr<Staging>& staging, SaveFacts facts, Instant began) {
  if (auto fence = status_->fence()) return saving->fail(std::move(*fence));
  const Nonce nonce = seams_.draw();
  const std::string shard = shard_key(saving->id(), 0, nonce);
  WriteWish wish = wish_of(staging, writes_.bytes_per_s);
  // Of a streamed snapshot the trainer waits for each part.
  if (writes_.gives_way && !facts.is_waited_for && !staging->is_streamed())
    wish.gives_way = [waiting = waiting_, gives_way = writes_.gives_way] {
      return waiting->load() == 0 ? gives_way() : nullptr;
    };
  const auto begun = begin_write(seams_, shard, staging->image(), std::move(wish), by());
  auto copied = staging->finish();
  if (!copied.ok()) {
    static_cast<void>(begun->finish().ok());
    remove_debris(saving->id(), {shard});
    status_->changed_meanwhile(staging->changed());
    return fail_save(saving, std::move(copied).error());
  }
  saving->reach(Saving::Stage::staged);
  Snapshot snapshot = std::move(copied).value();
  tell_health(snapshot.is_finite);
  const SaveTicket ticket{.save = saving->id(),
                          .open = opened_.open,
                          .resume = opened_.resume,
                          .life = opened_.life,
                          .nonce = nonce,
                          .append_nonce = seams_.draw(),
                          .at_unix_ms = seams_.clock.wall_unix_ms()};
  const auto noted = facts.metrics;
  SaveContent content{.index = std::move(snapshot.index),
                      .image = std::move(snapshot.image),
                      .begun = begun,
                      .chunks = std::move(snapshot.chunks),
                      .state_bytes = snapshot.state_bytes,
                      .provenance = std::move(facts.provenance),
                      .metrics = std::move(facts.metrics),
                      .health = std::string(snapshot.is_finite ? kHealthOk : kHealthNonFinite),
                      .tags = std::move(facts.tags)};
  CommitSave machine(ticket, std::move(content), history_);
  auto committed = [&]() -> Result<CommitSave::Committed> {
    try {
      return run(seams_, machine, by());
    } catch (const std::exception& e) {
      return Error(Code::bug, e.what());
    }
  }();
  static_cast<void>(begun->finish().ok());  // also where the machine did not ask for it
  if (committed.ok()) {
    history_ = std::move(committed.value().history);
  } else {
    settle_failed(saving->id(), machine.debris(), committed.error());
  }
  const Checkpoint* checkpoint = history_.find(saving->id());
  if (checkpoint == nullptr) {
    if (auto fence = status_->fence()) return fail_save(saving, std::move(*fence));
    return fail_save(saving, committed.ok() ? Error(Code::stopped, "a later step was committed first")
                                            : std::move(committed).error());
  }
  const std::chrono::duration<double> at_once(facts.times->at_once_s.load());
  const Instant went_on = began + std::chrono::duration_cast<Duration>(at_once);
  const Status::Cost cost{.exposed_s = facts.times->exposed_s.load(),
                          .staged_s = facts.times->staged_s.load(),
                          .durable_s = seconds_of(seams_.clock.now() - went_on),
                          .bytes = checkpoint->commit.state_bytes,
                          .later_bytes = staging->later_bytes(),
                          .is_streamed = staging->is_streamed(),
                          .snapped = began,
                          .went_on = went_on,
                          .cpu = facts.cpu};
  static_cast<void>(cost.cpu_s());  // what this thread did for it is told with the rest
  status_->saved(saving->id(), cost);
  const auto reading_is_no_part = cost.cpu ? cost.cpu->leave() : nullptr;
  const Commit commit = checkpoint->commit;
  tell_left_out(noted, commit.metrics);
  saving->reach(Saving::Stage::durable);
  post_for(saving, Lane::io, [saving, commit, cost](Background& me) { me.read_back(saving, commit, cost); });
  // Advisory, so that nobody waits for it.
  if (committed.ok() && !committed.value().hint.empty())
    static_cast<void>(seams_.store.advise(kHintKey, as_bytes(committed.value().hint), by()).ok());
}

void Background::tell_health(bool is_finite) {
  if (std::exchange(was_finite_, is_finite) == is_finite) return;
  status_->tell(is_finite ? "the parameters are finite again"
                          : "a parameter holds a value that is not finite");
}

void Background::tell_left_out(const std::map<std::string, double>& noted,
                               const std::map<std::string, double>& kept) {
  if (noted.size() == kept.size() || std::exchange(has_told_left_out_, true)) return;
  const auto first =
      std::find_if(noted.begin(), noted.end(), [&](const auto& m) { return !kept.contains(m.first); });
  status_->tell(fmt::format(
      "{} of {} metrics do not fit into a checkpoint, such as {}: they stand in {} only",
      noted.size() - kept.size(), noted.size(), printable(first->first), metrics_key(opened_.attempt)));
}

/// Nobody else writes these, and no record can name them any more: give the space back first. What cannot be
/// removed now is debris of an aborted save, which the next collection removes.
void Background::remove_debris(const SaveId& save, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) static_cast<void>(seams_.store.remove(key, by()).ok());
  static_cast<void>(seams_.store.remove_folder(save_prefix(save), by()).ok());
}

void Background::settle_failed(const SaveId& save, const std::optional<std::vector<std::string>>& debris,
                               const Error& error) {
  note_loss(error);
  if (status_->fence()) return;
  if (debris) remove_debris(save, *debris);
  // ABORT stands down where the COMMIT stands after all; then the fold has it.
  if (auto aborted = append(abort_decision({save, error.what()})); !aborted.ok()) note_loss(aborted.error());
}

void Background::fail_save(const std::shared_ptr<Saving>& saving, Error error) {
  if (error.code() != Code::fenced) status_->save_failed(saving->id(), error);
  saving->fail(std::move(error));
  collect();
}

/// Of the run to a newer attempt, or of its journal.
void Background::note_loss(const Error& error) {
  if (error.code() == Code::fenced) status_->fenced(error);
  if (error.code() == Code::journal_unreadable) status_->journal_lost(error);
}

Result<bool> Background::append(Decide decide) {
  UNBROKEN_TRY(Appended appended,
               run(seams_,
                   Append(history_, seams_.draw(), seams_.clock.wall_unix_ms(),
                          while_newest(opened_.open.slot, opened_.open.sha256, std::move(decide))),
                   by()));
  history_ = std::move(appended.history);
  return appended.record.has_value();
}

void Background::read_back(const std::shared_ptr<Saving>& saving, const Commit& commit,
                           const Status::Cost& cost) {
  auto found = run(seams_, ReadSave(commit, ReadSave::Depth::everything), by());
  const bool is_damaged = found.ok() && !found.value().damage.empty();
  if (is_damaged)
    found = run(seams_, ReadSave(commit, ReadSave::Depth::everything), by());  // evidence is read twice
  auto verdict = std::make_shared<Result<ReadSave::Found>>(std::move(found));
  post_for(saving, Lane::strand, [saving, commit, cost, verdict](Background& me) {
    me.on_read_back(saving, commit, cost, std::move(*verdict));
  });
}

/// Advisory, so what comes of it is not asked.
void Background::note_times(const SaveId& save, const Status::Cost& cost, double verified_s) {
  const double ago_s = seconds_of(seams_.clock.now() - cost.snapped);
  const std::string line =
      timeline_line({.save = save,
                     .open_slot = opened_.open.slot,
                     .at_unix_ms = seams_.clock.wall_unix_ms() - static_cast<std::int64_t>(ago_s * 1e3),
                     .wait_s = seconds_of(cost.went_on - cost.snapped),
                     .staged_s = cost.staged_s,
                     .durable_s = cost.durable_s,
                     .verified_s = verified_s,
                     .bytes = cost.bytes,
                     .later_bytes = cost.later_bytes,
                     .cpu_s = cost.cpu_s()});
  static_cast<void>(seams_.store.append(timeline_key(opened_.attempt), as_bytes(line), by()).ok());
}

void Background::on_read_back(const std::shared_ptr<Saving>& saving, const Commit& commit,
                              const Status::Cost& cost, Result<ReadSave::Found> found) {
  if (!found.ok()) {
    status_->worry(
        fmt::format("checkpoint {} could not be read back: {}", commit.save.name(), found.error().what()));
    return saving->fail(std::move(found).error());
  }
  if (found.value().damage.empty()) {
    auto verified =
        append(verified_decision({commit.save, std::string(kRunTier), seams_.process.self().host}));
    if (!verified.ok()) {
      note_loss(verified.error());
      if (verified.is(Code::fenced)) return saving->fail(std::move(verified).error());
      return lose(saving, std::move(verified).error());
    }
    const double verified_s = seconds_of(seams_.clock.now() - cost.went_on);
    status_->verified(commit.save, verified_s);
    note_times(commit.save, cost, verified_s);
    saving->reach(Saving::Stage::verified);
    return collect();
  }
  const Damage& worst = found.value().damage.front();
  auto recorded = append(
      quarantine_decision(quarantine_of(commit.save, worst, seams_.process.self().host, opened_.life)));
  if (!recorded.ok()) note_loss(recorded.error());
  const bool is_untold = !recorded.ok() && !recorded.is(Code::fenced);
  if (const Checkpoint* c = history_.find(commit.save); recorded.ok() && (c == nullptr || c->is_intended))
    return saving->fail(Error(Code::vanished, fmt::format("checkpoint {} was removed by retention before it "
                                                          "was read back",
                                                          commit.save.name())));
  if (is_untold || (recorded.ok() && recorded.value()))
    status_->worry(fmt::format("checkpoint {} is damaged on storage: {}: {}", commit.save.name(),
                               worst.object, worst.what));
  const Checkpoint* newest = history_.newest();
  status_->set_newest(newest == nullptr ? std::nullopt : std::optional(newest->commit.save));
  saving->fail(Error(Code::corrupt, fmt::format("{}: {}", worst.object, worst.what)));
}

std::shared_ptr<Saving> Background::tag(const std::shared_ptr<Saving>& earlier,
                                        std::vector<std::string> tags) {
  auto saving = this->saving(earlier->id());
  saving->reach(Saving::Stage::staged);
  // The strand commits what was asked for before this.
  post_for(saving, Lane::strand, [earlier, saving, tags = std::move(tags)](Background& me) {
    me.tag_on_strand(*earlier, *saving, tags);
    if (saving->error()) return;
    earlier->on_change([saving, from = earlier.get()] {
      if (from->has_reached(Saving::Stage::verified)) return saving->reach(Saving::Stage::verified);
      if (auto error = from->error()) saving->fail(std::move(*error));
    });
  });
  return saving;
}

void Background::tag_on_strand(const Saving& earlier, Saving& saving, const std::vector<std::string>& tags) {
  if (auto fence = status_->fence()) return saving.fail(std::move(*fence));
  if (!earlier.has_reached(Saving::Stage::durable))
    return saving.fail(earlier.error().value_or(Error(Code::stopped, "it was not saved")));
  for (const std::string& tag : tags) {
    auto added = append(tag_decision({earlier.id(), tag}));
    if (added.ok()) continue;
    note_loss(added.error());
    if (!added.is(Code::fenced))
      status_->save_failed(saving.id(), Error(added.error()).with(fmt::format("tag {}", tag)));
    return saving.fail(std::move(added).error());
  }
  saving.reach(Saving::Stage::durable);
}

void Background::collect() {
  if (status_->fence()) return;
  const auto unpin = [this](Decide decide) -> Result<> {
    UNBROKEN_DO(append(std::move(decide)));
    return Done{};
  };
  if (auto done = let_pins_lapse(seams_, history_, pins_, unpin, by()); !done.ok()) note_loss(done.error());
  auto collected = run(
      seams_, Collect(history_, opened_.open, seams_.clock.wall_unix_ms(), [this] { return seams_.draw(); }),
      by());
  if (collected.ok()) {
    history_ = std::move(collected.value().history);
    return;
  }
  note_loss(collected.error());
  if (collected.error().code() != Code::fenced && collected.error().code() != Code::stopped)
    status_->worry(fmt::format("old checkpoints could not be removed: {}", collected.error().what()));
}

void Background::add_metrics(const std::string& line) {
  const Instant now = seams_.clock.now();
  std::optional<Instant> later;
  {
    const std::lock_guard lock(mutex_);
    if (metrics_.size() + line.size() > kMetricsBytesMax) return;  // storage that answers nothing
    metrics_ += line;
    metrics_ += '\n';
    const Instant due = flushed_.value_or(now) + kMetricsWait;
    const bool is_due = !flushed_ || now >= due || metrics_.size() >= kMetricsBytesWait;
    if (!is_due && std::exchange(is_flush_timed_, true)) return;
    if (!is_due) later = due;
  }
  later ? flush_metrics_at(*later) : flush_metrics();
}

void Background::flush_metrics_at(Instant when) {
  seams_.executor.post_at(when, [weak = weak_from_this()] {
    const auto me = weak.lock();
    if (!me) return;
    me->jobs_.fetch_add(1);  // before it looks: whoever stops us waits for our jobs after that
    me->carry_out([](Background& self) {
      {
        const std::lock_guard lock(self.mutex_);
        self.is_flush_timed_ = false;
      }
      if (!self.stop_.stop_requested()) self.flush_metrics();
    });
  });
}

void Background::flush_metrics() {
  {
    const std::lock_guard lock(mutex_);
    if (metrics_.empty()) return;
    flushed_ = seams_.clock.now();
    is_flush_wanted_ = true;
    if (std::exchange(is_writing_metrics_, true)) return;
  }
  if (post(Lane::io, [](Background& me) { me.write_metrics(); })) return;
  const std::lock_guard lock(mutex_);
  is_writing_metrics_ = false;  // with a later line
}

/// One at a time, so that lines stay in order.
void Background::write_metrics() {
  for (;;) {
    std::string lines;
    {
      const std::lock_guard lock(mutex_);
      is_writing_metrics_ = std::exchange(is_flush_wanted_, false);
      if (!is_writing_metrics_) return;
      lines.swap(metrics_);
    }
    // Advisory, as the journal's metrics are the ones that count: said once, until it works again.
    auto added = seams_.store.append(metrics_key(opened_.attempt), as_bytes(lines), by());
    const bool is_news = !added.ok() && !std::exchange(are_metrics_failing_, !added.ok());
    if (added.ok()) are_metrics_failing_ = false;
    if (is_news && !added.is(Code::stopped))
      status_->worry(fmt::format("metrics could not be written: {}", added.error().what()));
  }
}

void Background::keep_account(std::string text) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_posted = !std::exchange(account_, std::move(text)).empty();
    if (is_posted) return;
  }
  if (post(Lane::io, [](Background& me) { me.flush_account(); })) return;
  const std::lock_guard lock(mutex_);
  account_.clear();  // with the next one
}

void Background::flush_account() {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text.swap(account_);
  }
  // Advisory: without it a later life knows less of this one.
  static_cast<void>(seams_.store.advise(account_key(opened_.attempt), as_bytes(text), by()).ok());
}

Result<> Background::drain(const Deadline& deadline) {
  flush_metrics();
  const Counted here = hurry();
  return seams_.executor.wait([this] { return is_idle(); }, deadline);
}

void Background::say_closed(const std::string& account) {
  if (status_->fence() || history_.next_slot() == 0) return;
  static_cast<void>(seams_.store.advise(account_key(opened_.attempt), as_bytes(account), by()).ok());
  unbroken::say_closed(seams_, history_, opened_.open.slot, by());
}

}  // namespace unbroken
