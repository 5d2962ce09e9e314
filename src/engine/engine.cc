#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "base/json.h"
#include "base/mutant.h"
#include "base/point.h"
#include "engine/write/write_object.h"
#include "journal/retention.h"

namespace unbroken {

namespace {

constexpr unsigned kArenaSlots = 2;  // one being filled while one is written
// Of a window: fewer blocks could not be copied while others are written; and two for each write at a time.
constexpr std::uint64_t kWindowBytesMin = 4 * kBlockBytes;
// Of what is copied later, all is proved in the first saves, then this share of each MiB in turn.
constexpr std::uint64_t kProvedWhole = 3, kProofShare = 64;

std::optional<double> last_of(const Metrics& metrics, std::string_view name) {
  std::optional<double> out;
  for (const auto& [key, value] : metrics)
    if (key == name) out = value;
  return out;
}

ArenaLimits with_window(ArenaLimits limits, const Executor& executor) {
  if (limits.window_bytes_max > 0) return limits;
  limits.window_bytes_min = kWindowBytesMin;
  limits.window_bytes_max = std::max(2 * executor.width(Lane::io) * kBlockBytes, kWindowBytesMin);
  return limits;
}

Error closed() {
  return Error(Code::bad_argument, "this run is closed: open it again to go on");
}

}  // namespace

Engine::Engine(const Seams& seams, EngineOptions options)
    : seams_(seams),
      options_(std::move(options)),
      status_(std::make_shared<Status>()),
      arena_(Arena::make(kArenaSlots, with_window(options_.arena, seams_.executor))) {
  options_.pace.cadence.keep_every = options_.open.policy.keep_every;
}

Engine::~Engine() {
  if (!background_) return;
  // Jobs use the seams, which the owner takes away next; stopped, they end at their next storage call.
  background_->stop();
  seams_.executor.join([this] { return background_->is_idle(); });
}

Result<> Engine::restore(Loader& loader, const Deadline& by) {
  UNBROKEN_CHECK(!background_);
  const Instant began = seams_.clock.now();
  OpenOptions open = options_.open;
  open.admit = [&](const History& history) -> Result<> {
    UNBROKEN_TRY(pace_, Pace::create(options_.pace, seams_, history, by));
    return Done{};
  };
  UNBROKEN_TRY(Opened opened, open_run(seams_, open, loader, by));
  pace_->start(opened, began, seams_.clock);
  if (const auto& rule = options_.open.policy.best)
    if (const Checkpoint* c = best(opened.history, *rule)) best_ = c->commit.metrics.at(rule->metric);
  background_ = Background::start(seams_, std::move(opened), status_, options_.writes);
  if (auto line = pace_->take_line()) status_->tell(std::move(*line));
  return Done{};
}

void Engine::follow_costs(Instant now) {
  pace_->follow(status_->take_ends(), now);
  if (auto line = pace_->take_line()) status_->tell(std::move(*line));
  status_->promise_breaks(pace_->plan().broken_promise);
}

Result<> Engine::boundary(std::uint64_t step) {
  UNBROKEN_CHECK(is_open());
  UNBROKEN_POINT("step.boundary");
  if (is_closed_) return closed();
  const Instant now = seams_.clock.now();
  pace_->on_step(step, now);
  follow_costs(now);
  if (pace_->is_account_due(now) && !status_->fence())
    background_->keep_account(pace_->account(now, seams_.clock.wall_unix_ms(), false));
  if (auto fence = status_->fence()) return std::move(*fence);
  if (!options_.raises_on_save_error) return Done{};
  if (auto failure = status_->take_failure()) return std::move(*failure);
  return Done{};
}

Result<> Engine::log(std::uint64_t step, const Metrics& metrics) {
  UNBROKEN_CHECK(is_open());
  if (is_closed_) return closed();
  Json line = Json::object();
  for (const auto& [name, value] : metrics) line[name] = json_number(value);
  line["step"] = step;  // ours, whatever a metric is called
  line["attempt"] = opened().attempt;
  UNBROKEN_TRY(std::string text, canonical_json(line));
  background_->add_metrics(text);
  return Done{};
}

bool Engine::is_due(std::uint64_t step) {
  const Instant now = seams_.clock.now();
  if (status_->distrusted_count() != distrusted_) return true;
  const Pace::Verdict verdict = pace_->decide(step, now, background_->is_saving());
  decided_s_ += seconds_of(seams_.clock.now() - now);
  decisions_ += 1;
  if (verdict != Pace::Verdict::skipped) return verdict == Pace::Verdict::yes;
  const auto is_idle = [this] { return !background_->is_saving(); };
  const Counted here = background_->hurry();
  if (options_.busy_wait > Duration::zero() &&
      seams_.executor.wait(is_idle, seams_.within(options_.busy_wait)).ok()) {
    stalled_since_ = now;
    return true;
  }
  status_->save_skipped();
  return false;
}

std::optional<double> Engine::best_so_far() {
  using Stage = Saving::Stage;
  std::erase_if(best_saves_, [&](const BestSave& save) {
    const bool is_whole = save.saving->has_reached(Stage::verified);
    if (is_whole) best_ = save.value;
    const auto error = save.saving->error();
    return is_whole ||
           (error && (!save.saving->has_reached(Stage::durable) || error->code() == Code::corrupt));
  });
  return best_saves_.empty() ? best_ : best_saves_.back().value;
}

bool Engine::is_best(const Metrics& metrics) {
  const auto& rule = options_.open.policy.best;
  if (!rule) return false;
  const auto value = last_of(metrics, rule->metric);
  if (!value || !std::isfinite(*value)) return false;
  const std::optional<double> best = best_so_far();
  return !best || rule->is_better(*value, *best);
}

Result<std::shared_ptr<Staging>> Engine::stage(StateView state, bool is_proved_whole, const Deadline& by) {
  const std::uint64_t bytes = image_bytes_at_most(state.tensors);
  {
    const Counted here = background_->hurry();
    UNBROKEN_DO(seams_.executor.wait([&] { return arena_->has_room(bytes); }, by));
  }
  UNBROKEN_POINT("save.before_snapshot");
  const std::vector<std::string> distrusted = status_->distrusted();
  distrusted_ = distrusted.size();
  std::erase_if(state.later, [&](std::uint32_t t) {
    return std::binary_search(distrusted.begin(), distrusted.end(), state.tensors[t].name);
  });
  const std::uint64_t number = state.later.empty() ? 0 : later_saves_++;
  is_proved_whole = is_proved_whole || number < kProvedWhole;
  const Proof proof = is_proved_whole ? Proof{} : Proof{.every = kProofShare, .first = number % kProofShare};
  try {
    const auto copy_shared = [&process = seams_.process](const std::byte* from, MutableBytes into) {
      return process.copy_shared(from, into);
    };
    auto staged = Staging::begin(std::move(state), *arena_, seams_.executor, copy_shared, proof, &last_plan_);
    if (staged.ok() && staged.value()->is_streamed() && !std::exchange(has_told_streamed_, true))
      status_->warn(fmt::format(
          "{}; so each save lets the training wait until the storage has taken it: give arena=, or the "
          "memory of the machine or the cgroup, that much more",
          staged.value()->streamed_because()));
    return staged;
  } catch (const CheckFailed& e) {
    return Error(Code::bug, e.what());
  }
}

void Engine::distrust(const std::vector<std::string>& written) {
  const std::vector<std::string> known = status_->distrusted();
  std::vector<std::string> news;
  std::set_difference(written.begin(), written.end(), known.begin(), known.end(), std::back_inserter(news));
  if (news.empty()) return;
  status_->changed_meanwhile(news);
  status_->tell(changed_text(news));
}

std::function<bool()> Engine::reserve(std::uint64_t bytes, std::uint64_t needed_besides) {
  if (!arena_->reserve(bytes, needed_besides)) return {};
  return [arena = arena_] { return arena->touch_some(); };
}

void Engine::fence() {
  const auto open_saves = [this] {
    const std::lock_guard lock(mutex_);
    return std::exchange(open_, {});
  }();
  for (const Open& open : open_saves) {
    const std::shared_ptr<Staging> staging = open.staging.lock();
    const bool is_over = !staging || (staging->is_copied() && !open.watched);
    if (is_over || UNBROKEN_MUTANT("fence_does_not_wait")) continue;
    const Instant began = seams_.clock.now();
    const auto counted = open.cpu ? open.cpu->enter() : nullptr;
    staging->copy();
    if (open.watched) distrust(staging->look_again());
    open.times->exposed_s = open.times->exposed_s + seconds_of(seams_.clock.now() - began);
  }
}

void Engine::save_failed(std::uint64_t step, const Error& error) {
  stalled_since_.reset();
  status_->save_failed(background_->next_id(step), error, true);
}

Result<std::shared_ptr<Saving>> Engine::save(std::uint64_t step, StateView state, const SaveWish& wish,
                                             const Deadline& by) {
  UNBROKEN_CHECK(is_open());
  const std::optional<Instant> stalled_since = std::exchange(stalled_since_, std::nullopt);
  if (is_closed_) return closed();
  if (auto fence = status_->fence()) return std::move(*fence);
  if (auto earlier = background_->saving_of(step))
    return wish.tags.empty() ? earlier : background_->tag(earlier, wish.tags);
  const Instant began = stalled_since.value_or(seams_.clock.now());
  fence();  // of an earlier save
  const std::shared_ptr<CpuMeter> cpu = options_.meter ? options_.meter() : nullptr;
  const auto counted = cpu ? cpu->enter() : nullptr;
  const bool is_new_best = is_best(wish.metrics);
  if (is_new_best) state.later.clear();  // one that is not finite is none, and that is to be known now
  auto staged = stage(std::move(state), wish.is_proved_whole, by);
  if (!staged.ok()) {
    save_failed(step, staged.error());
    return std::move(staged).error();
  }
  const std::shared_ptr<Staging> staging = std::move(staged).value();
  const auto saving = background_->saving(background_->next_id(step));
  SaveFacts facts{.metrics = {wish.metrics.begin(), wish.metrics.end()},
                  .tags = wish.tags,
                  .provenance = options_.provenance,
                  .cpu = cpu,
                  .is_waited_for = wish.is_waited_for};
  const auto times = facts.times;
  background_->commit(saving, staging, std::move(facts));  // what is copied is written at once
  const Instant copying = seams_.clock.now();
  staging->copy_at_once();
  UNBROKEN_POINT("save.after_snapshot");
  if (is_new_best) staging->copy();  // what arrives
  if (staging->is_copied()) saving->reach(Saving::Stage::staged);
  if (is_new_best && staging->is_finite())
    best_saves_.push_back({saving, *last_of(wish.metrics, options_.open.policy.best->metric)});
  const Instant now = seams_.clock.now();
  pace_->on_save(now);
  times->at_once_s = seconds_of(now - copying);
  times->exposed_s = seconds_of(now - began);
  if (staging->later_bytes() > 0) {
    const std::lock_guard lock(mutex_);
    open_.push_back({staging, staging->is_proved_whole() ? staging : nullptr, times, cpu});
  }
  return saving;
}

Result<> Engine::tap(std::uint64_t step, const Metrics& metrics, std::span<const TensorView> tensors,
                     const TapValues& values, const TapValues& not_attached) {
  if (!has_tap()) return Done{};
  UNBROKEN_TRY(const std::vector<Xxh128> digests, digest_views(tensors, seams_.executor));
  Json by_tensor = Json::object(), by_value = Json::object(), bits = Json::object(), left = Json::object();
  for (std::size_t i = 0; i < digests.size(); ++i) by_tensor[tensors[i].name] = digests[i].hex();
  for (const auto& [name, text] : values) by_value[name] = text;
  for (const auto& [name, text] : not_attached) left[name] = text;
  for (const auto& [name, value] : metrics) bits[name] = Nonce{std::bit_cast<std::uint64_t>(value)}.hex();
  UNBROKEN_TRY(const std::string line, canonical_json({{"step", step},
                                                       {"attempt", opened().attempt},
                                                       {"metrics", std::move(bits)},
                                                       {"tensors", std::move(by_tensor)},
                                                       {"values", std::move(by_value)},
                                                       {"not_attached", std::move(left)}}));
  return options_.tap(line);
}

EngineStats Engine::stats() const {
  EngineStats out;
  out.saves = status_->saves();
  out.arena_bytes = arena_->bytes();
  out.distrusted = status_->distrusted();
  if (!pace_) return out;
  out.step_s = pace_->step_s();
  out.interval_s = pace_->plan().interval_s;
  out.decide_ns = decisions_ > 0 ? 1e9 * decided_s_ / static_cast<double>(decisions_) : 0;
  return out;
}

Result<> Engine::drain(const Deadline& by) {
  return background_ ? background_->drain(by) : Result<>(Done{});
}

Result<> Engine::close(const Deadline& by, std::optional<int> code) {
  if (!background_ || is_closed_) return Done{};
  UNBROKEN_DO(background_->drain(by));
  const Instant now = seams_.clock.now();
  follow_costs(now);
  background_->say_closed(pace_->account(now, seams_.clock.wall_unix_ms(), true, code));
  is_closed_ = true;
  if (auto fence = status_->fence()) return std::move(*fence);
  if (auto loss = status_->loss()) return std::move(*loss);
  return Done{};
}

}  // namespace unbroken
