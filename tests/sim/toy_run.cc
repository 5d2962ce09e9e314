#include "toy_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/driver.h"
#include "filestore/leftovers.h"
#include "filestore/probe.h"
#include "journal/fold/fold.h"
#include "journal/read_journal.h"
#include "journal/slots.h"
#include "journal/void_slot.h"
#include "restore/read_save.h"

namespace unbroken::toy {

namespace {

constexpr Duration kLong =
    std::chrono::hours(24 * 365 * 40);  // no timer: time does not jump while one is paused

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Two tensors that are one value in different dress, so that a mixture of two steps shows.
class Model final : public Loader {
 public:
  Model() : weights_(96), moments_(5) { put(0); }
  void be_finite(bool is_finite) { scale_ = is_finite ? 1 : std::nan(""); }
  void put(std::uint64_t step) {
    step_ = step;
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] = mix(content_after(step) + i);
    for (std::size_t i = 0; i < moments_.size(); ++i) moments_[i] = mix(content_after(step) ^ (i << 32));
  }
  StateView view() {
    StateView state;
    state.tensors = {contiguous_view("model.weights", DType::u64, {weights_.size()}, weights_.data()),
                     contiguous_view("optimizer.moments", DType::u64, {moments_.size()}, moments_.data()),
                     contiguous_view("step", DType::u64, {}, &step_),
                     contiguous_view("model.scale", DType::f64, {}, &scale_)};
    state.parameters = {3};
    Dict roots;
    for (const TensorView& view : state.tensors)
      roots.items.emplace_back(Node{view.name}, Node{TensorRef{view.name, true}});
    state.tree = Node{std::move(roots)};
    return state;
  }
  bool is_exactly(std::uint64_t step) {
    Model expected;
    expected.put(step);
    return step_ == step && weights_ == expected.weights_ && moments_ == expected.moments_;
  }
  Result<> check(const SavedState& saved) override {
    if (saved.index.tensors.size() != 4) return Error(Code::mismatch, "not four tensors");
    return Done{};
  }
  Result<std::vector<TensorTarget>> targets(const SavedState&) override {
    std::vector<TensorTarget> out;
    for (TensorView& view : view().tensors)
      out.push_back(
          {view.name, {static_cast<std::byte*>(view.data), byte_size(view.dtype, view.shape).value()}});
    return out;
  }

 private:
  std::uint64_t step_ = 0;
  double scale_ = 1;
  std::vector<std::uint64_t> weights_, moments_;
};

EngineOptions options_of(const Life& life) {
  EngineOptions options;
  options.pace.schedule = Schedule::every_steps(life.every).value();
  options.open.resume = parse_at(life.resume).value();
  options.open.is_takeover = life.is_takeover;
  options.open.policy = {
      .keep_last = life.keep_last, .verified_min = life.verified_min, .keep_every = life.keep_every};
  if (life.is_best_kept) options.open.policy.best = BestRule{"score", false};
  return options;
}

/// The seams of a process on the simulated disk.
struct Site {
  Site(SimProcess& me, std::uint64_t fold_every, Duration pin_lasts = kPinLasts)
      : store(me.fs(), me.clock(), me.random("store"), {.path = "run"}),
        seams{me.clock(), me.random("engine"), me.executor(), store, me, fold_every, pin_lasts} {}
  FileStore store;
  Seams seams;
};

bool is_end_of_process(const Error& error, SimProcess& me) {
  return me.is_over() || error.code() == Code::fenced;
}

}  // namespace

/// Up and down; sometimes not a number.
double score_after(std::uint64_t step) {
  const std::uint64_t drawn = mix(step) % 11;
  return drawn == 0 ? std::nan("") : static_cast<double>(drawn);
}

std::uint64_t content_after(std::uint64_t step) {
  return mix(0x9e3779b97f4a7c15ULL * (step + 1));
}

void live(SimProcess& me, const Life& life, Oracle& oracle) {
  Site site(me, life.fold_every, life.pin_lasts);
  EngineOptions options = options_of(life);
  options.open.probe = [&](const Deadline& deadline) {
    return probe_store(site.store, site.seams.random, deadline);
  };
  options.open.sweep = [&](const Deadline& deadline) { sweep_leftovers(site.store, deadline); };
  Engine engine(site.seams, std::move(options));
  Model model;
  const auto by = [&] { return site.seams.within(kLong); };
  // Whatever goes wrong ends this life, as it would end a program.
  const auto gave_up = [&](const Error& error) {
    if (error.code() == Code::fenced && engine.is_open()) oracle.fenced(engine.opened().attempt);
    if (!is_end_of_process(error, me)) oracle.refused(me.name(), error);
  };
  if (auto restored = engine.restore(model, by()); !restored.ok()) return gave_up(restored.error());
  const std::uint64_t start = engine.opened().resume ? engine.opened().resume->step : 0;
  if (!model.is_exactly(start))
    return me.world().fail(fmt::format("{}: the state loaded is not that of step {}", me.name(), start));
  oracle.restored(start, engine.opened().attempt, content_after(start));
  bool is_first = true;
  for (std::uint64_t step = start + 1; step <= life.steps; ++step) {
    engine.fence();  // as an optimizer's hook does
    if (!engine.stats().distrusted.empty())
      return me.world().fail(fmt::format("{}: state was written while it was copied", me.name()));
    model.put(step);
    model.be_finite(life.nan_every == 0 || step % life.nan_every != 0);
    const Metrics metrics{{"loss", 1.0 / static_cast<double>(step)}, {"score", score_after(step)}};
    if (auto done = engine.log(step, metrics); !done.ok()) return gave_up(done.error());
    if (auto done = engine.boundary(step); !done.ok()) return gave_up(done.error());
    if (!is_first && step != life.steps && !engine.is_best(metrics) && !engine.is_due(step)) continue;
    is_first = false;
    StateView state = model.view();
    if (step % 2 == 0) state.later = {0};
    auto saving = engine.save(step, std::move(state),
                              {.metrics = metrics,
                               .tags = life.is_tagging && step % 3 == 0 ? std::vector<std::string>{"third"}
                                                                        : std::vector<std::string>()},
                              by());
    if (!saving.ok()) {
      if (saving.is(Code::unavailable)) continue;
      return gave_up(saving.error());
    }
    const SaveId id = saving.value()->id();
    const std::weak_ptr<Saving> handle = saving.value();
    saving.value()->on_change([&oracle, id, handle, told = std::make_shared<bool>(false)] {
      const auto mine = handle.lock();
      if (mine && mine->has_reached(Saving::Stage::durable) && !std::exchange(*told, true))
        oracle.acknowledged(id);
    });
    if (life.is_draining)
      if (auto drained = engine.drain(by()); !drained.ok()) return gave_up(drained.error());
  }
  if (auto closed = engine.close(by()); !closed.ok()) return gave_up(closed.error());
  if (auto fence = engine.status().fence()) gave_up(*fence);
}

Result<History> declare_void(SimProcess& me, std::uint64_t slot) {
  Site site(me, kFoldEvery);
  return run(site.seams, VoidSlot(slot, site.seams.draw(), 0), site.seams.within(kLong));
}

void evaluate(SimProcess& me, std::uint64_t fold_every, Hold hold) {
  Site site(me, fold_every);
  const Deadline by = site.seams.within(kLong);
  for (bool is_vanished = true; is_vanished;) {
    auto reader = Reader::open(site.seams, "newest", by, hold);
    if (!reader.ok()) return;
    Model model;
    const auto targets = model.targets(reader.value().saved());
    auto read = reader.value().read(targets.value(), by);
    while (read.is(Code::corrupt) && reader.value().next_older(by).ok())
      read = reader.value().read(targets.value(), by);
    const std::uint64_t step = reader.value().saved().commit.save.step;
    if (read.ok() && !model.is_exactly(step))
      me.world().fail(fmt::format("an evaluation read a state that is not that of step {}", step));
    is_vanished = read.is(Code::vanished);
    (void)reader.value().close(by);
  }
}

void evaluate_pinned(SimProcess& me, Duration pin_lasts, SimRandom random) {
  Site site(me, kFoldEvery, pin_lasts);
  const Deadline by = site.seams.within(kLong);
  const auto pass = [&] {
    const Deadline until = site.seams.within(std::chrono::microseconds(random.below(10'000)));
    (void)site.seams.executor.wait([] { return false; }, until);
  };
  for (std::uint64_t left = 1 + random.below(4); left > 0; --left) {
    pass();
    auto opened = Reader::open(site.seams, "newest", by, Hold::pin);
    if (!opened.ok()) continue;
    Reader reader = std::move(opened).value();
    for (int i = 0; i < 2; ++i) {
      pass();
      Model model;
      const std::uint64_t step = reader.saved().commit.save.step;
      const auto read = reader.read(model.targets(reader.saved()).value(), by);
      if (read.ok() && !model.is_exactly(step))
        me.world().fail(fmt::format("a load read a state that is not that of step {}", step));
      if (read.is(Code::vanished) && pin_lasts == kPinLasts)
        me.world().fail(fmt::format("step {} vanished under a pin", step));
    }
    (void)reader.close(by);
  }
}

// COMMIT may stand before a newer OPEN and be acknowledged after it; that it stands before is History's to
// check.
void Oracle::acknowledged(const SaveId& save) {
  acknowledged_.push_back(save);
}

void Oracle::restored(std::uint64_t step, std::uint32_t attempt, std::uint64_t) {
  ++restored_count;
  if (is_damage_allowed) return;
  for (const SaveId& save : acknowledged_)
    if (save.attempt < attempt && save.step > step)
      fail(fmt::format("attempt {} went on from step {} although {} was acknowledged", attempt, step,
                       save.name()));
}

void Oracle::refused(const std::string& who, const Error& error) {
  if (may_see_an_owner && error.code() == Code::bad_argument) return;
  if (!are_errors_allowed) fail(fmt::format("{} ended by {}: {}", who, name_of(error.code()), error.what()));
}

namespace {

/// Executes actions without scheduling, on a disk that nobody else uses.
class Looking {
 public:
  explicit Looking(SimWorld& world)
      : fs_(world.observer()),
        clock_(world.clock()),
        random_(world.stream("oracle")),
        store_(fs_, clock_, random_, {.path = "run"}) {}
  template <class M>
  auto run(M machine) {
    std::vector<Action> pending = machine.start();
    while (!pending.empty() && !machine.is_over()) {
      const Action action = std::move(pending.front());
      pending.erase(pending.begin());
      for (Action& next : machine.on(execute(action))) pending.push_back(std::move(next));
    }
    return machine.take();
  }
  std::optional<std::string> get(const std::string& key) {
    auto bytes = store_.get(key, 1 << 24, by());
    return bytes.ok() ? std::optional(std::move(bytes).value()) : std::nullopt;
  }

 private:
  Deadline by() const { return {Instant{Duration::max()}, {}}; }
  Event execute(const Action& action) {
    if (const auto* get = std::get_if<GetObject>(&action)) {
      auto bytes = store_.get(get->key, get->bytes_max, by());
      if (bytes.ok()) return GotObject{get->key, std::move(bytes).value()};
      if (bytes.is(Code::not_found)) return GotObject{get->key, std::nullopt};
      return ActionFailed{get->key, bytes.error()};
    }
    if (const auto* list = std::get_if<ListPrefix>(&action))
      return ListedPrefix{list->prefix, store_.list(list->prefix, by()).value()};
    if (const auto* stat = std::get_if<StatObject>(&action)) {
      const auto reader = store_.open_reader(stat->key, by());
      if (!reader.ok() && !reader.is(Code::not_found)) return ActionFailed{stat->key, reader.error()};
      return StatedObject{stat->key, reader.ok() ? std::optional(reader.value()->bytes()) : std::nullopt};
    }
    const auto& hash = std::get<HashObject>(action);
    auto reader = store_.open_reader(hash.key, by());
    if (!reader.ok()) return ActionFailed{hash.key, reader.error()};
    std::string bytes(reader.value()->bytes(), ' ');
    const auto read = reader.value()->read(0, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
    if (!read.ok()) return ActionFailed{hash.key, read.error()};
    HashedObject out{hash.key, bytes.size(), {}, {}};
    if (bytes.size() != hash.bytes) return out;
    out.head = bytes.substr(0, hash.head_bytes);
    for (std::size_t at = 0; at < bytes.size(); at += hash.chunk_bytes)
      out.chunks.push_back(xxh128(as_bytes(std::string_view(bytes).substr(at, hash.chunk_bytes))));
    return out;
  }

  Fs& fs_;
  const Clock& clock_;
  SimRandom random_;
  FileStore store_;
};

bool is_best_of_all(const History& before, const Checkpoint& c) {
  const auto score = [](const Checkpoint& of) {
    const auto value = of.commit.metrics.find("score");
    const bool has = value != of.commit.metrics.end() && std::isfinite(value->second) && of.is_good() &&
                     of.commit.health == kHealthOk;
    return has ? value->second : -1;
  };
  const double mine = score(c);
  if (mine < 0) return false;
  for (const Checkpoint& other : before.checkpoints())
    if (&other != &c && score(other) >= mine) return false;
  return true;
}

/// The ghost of retention: on the prefix that an INTENT extends, enough stays behind.
std::string retention_fault(const History& before, const SaveId& victim) {
  const Checkpoint* gone = before.find(victim);
  if (gone == nullptr) return "INTENT for a save that was never committed";
  const bool is_among_all = gone->is_good() && gone->commit.health != kHealthOk;
  std::uint32_t newer = 0, verified = 0;
  bool is_on_lineage = false;
  for (const Checkpoint* c : before.lineage()) {
    is_on_lineage = is_on_lineage || c == gone;
    if (c == gone || !c->is_good() || (c->commit.health != kHealthOk && !is_among_all)) continue;
    newer += c->slot > gone->slot ? 1 : 0;
    verified += c->verified.empty() ? 0 : 1;
  }
  if (newer < before.policy().keep_last)
    return fmt::format("INTENT({}) leaves {} newer checkpoints", victim.name(), newer);
  if (verified < before.policy().verified_min)
    return fmt::format("INTENT({}) leaves {} verified checkpoints", victim.name(), verified);
  if (!gone->tags.empty()) return fmt::format("INTENT({}) takes a tagged one", victim.name());
  const Policy& policy = before.policy();
  if (policy.keep_every > 0 && victim.step % policy.keep_every == 0 && gone->is_good() && is_on_lineage)
    return fmt::format("INTENT({}) takes one of every {}", victim.name(), policy.keep_every);
  if (policy.best && is_best_of_all(before, *gone))
    return fmt::format("INTENT({}) takes the best", victim.name());
  if (before.protected_resume() == victim)
    return fmt::format("INTENT({}) takes the resume point of the newest attempt", victim.name());
  return {};
}

}  // namespace

namespace {

/// "GENESIS OPEN(a1) COMMIT(1.a1) VERIFIED(1.a1)", for a person who reads a failure.
std::string journal_text(SimWorld& world) {
  Looking looking(world);
  std::string out;
  for (std::uint64_t slot = 0;; ++slot) {
    const auto bytes = looking.get(slot_key(slot));
    if (!bytes) return out;
    const auto decoded = decode_record(*bytes);
    if (!decoded.ok()) return out + " ?";
    const Fact& fact = decoded.value().record.fact;
    out += fmt::format("{}{}", slot == 0 ? "" : " ", type_of(fact));
    if (const auto* open = std::get_if<Open>(&fact))
      out += fmt::format("(a{} from {})", open->attempt, open->resume ? open->resume->name() : "0");
    if (const auto* commit = std::get_if<Commit>(&fact)) out += fmt::format("({})", commit->save.name());
    if (const auto* abort = std::get_if<Abort>(&fact))
      out += fmt::format("({}: {})", abort->save.name(), abort->why);
    if (const auto* intent = std::get_if<Intent>(&fact)) out += fmt::format("({})", intent->save.name());
    if (const auto* pin = std::get_if<Pin>(&fact))
      out += fmt::format("({} {})", pin->save.name(), pin->pin.hex());
    if (const auto* unpin = std::get_if<Unpin>(&fact))
      out += fmt::format("({} {})", unpin->save.name(), unpin->pin.hex());
    if (const auto* verified = std::get_if<Verified>(&fact))
      out += fmt::format("({})", verified->save.name());
    if (const auto* q = std::get_if<Quarantine>(&fact))
      out += fmt::format("({}: {} {})", q->save.name(), q->object, q->seen);
  }
}

}  // namespace

void Oracle::fail(const std::string& what) {
  world_->fail(fmt::format("{}; journal: {}", what, journal_text(*world_)));
}

std::uint64_t Oracle::slot_count() {
  const auto names = world_->observer().list("journal");
  if (!names.ok()) return 0;
  const auto is_slot = [](const std::string& name) { return slot_from_name(name).has_value(); };
  return static_cast<std::uint64_t>(std::count_if(names.value().begin(), names.value().end(), is_slot));
}

void Oracle::cut_journal(std::uint64_t left) {
  for (std::uint64_t slot = slot_count(); slot-- > left;) (void)world_->observer().unlink(slot_key(slot));
}

std::uint64_t Oracle::spoil_last_slot() {
  const std::uint64_t last = slot_count() - 1;
  const std::string bytes = *world_->disk().peek(slot_key(last));
  const Fact fact = decode_record(bytes).value().record.fact;
  if (const auto* commit = std::get_if<Commit>(&fact)) std::erase(acknowledged_, commit->save);
  if (const auto* intent = std::get_if<Intent>(&fact)) half_removed_.insert(intent->save);
  world_->disk().plant(slot_key(last), std::string(bytes.size(), 'x'));
  return last;
}

bool Oracle::is_readable() {
  return Looking(*world_).run(ReadJournal({}, ReadJournal::Purpose::look)).ok();
}

void Oracle::check_swept() {
  for (const char* folder : {"", "journal", "fold", "metrics", "pins"}) {
    const auto names = world_->observer().list(folder);
    if (!names.ok()) continue;
    for (const std::string& name : names.value())
      if (temporary_of(name)) fail(fmt::format("{}/{} was left for ever", folder, name));
  }
  std::set<std::string> held;
  auto read = Looking(*world_).run(ReadJournal(History(fold_every), ReadJournal::Purpose::look));
  if (!read.ok()) return;
  for (const Checkpoint& c : read.value().history.checkpoints())
    for (const Nonce& pin : c.pins) held.insert(pin.hex());
  if (const auto hearts = world_->observer().list("pins"); hearts.ok())
    for (const std::string& name : hearts.value())
      if (!held.contains(name)) fail(fmt::format("the heartbeat {} of no pin was left for ever", name));
}

void Oracle::damage_a_fold(SimRandom& random) {
  const auto names = world_->observer().list("fold");
  if (!names.ok() || names.value().empty()) return;
  const std::string path = "fold/" + names.value()[random.below(names.value().size())];
  is_a_fold_damaged_ = true;
  if (random.below(2) == 0)
    (void)world_->observer().unlink(path);
  else
    (void)world_->disk().flip_bit(path, random.below(600));
}

void Oracle::check_disk() {
  Looking looking(*world_);
  History history;
  std::set<SaveId> committed;
  std::map<SaveId, std::set<Nonce>> pins;
  for (std::uint64_t slot = 0;; ++slot) {
    const auto bytes = looking.get(slot_key(slot));
    if (!bytes) break;
    const auto record = decode_record(*bytes);
    const auto after = record.ok() ? std::nullopt : looking.get(slot_key(slot + 1));
    if (const auto passed = after ? decode_record(*after) : Error(Code::not_found, ""); passed.ok()) {
      if (const auto* v = std::get_if<Void>(&passed.value().record.fact); v != nullptr && v->slot == slot) {
        history.skip_void(slot, sha256(as_bytes(*bytes)));
        continue;
      }
    }
    if (!record.ok()) return fail(fmt::format("journal slot {}: {}", slot, record.error().what()));
    if (const auto* intent = std::get_if<Intent>(&record.value().record.fact))
      if (const std::string fault = retention_fault(history, intent->save); !fault.empty())
        return fail(fault);
    if (const auto* intent = std::get_if<Intent>(&record.value().record.fact);
        intent && !pins[intent->save].empty())
      return fail(fmt::format("INTENT({}) takes what a reader pinned", intent->save.name()));
    if (const auto* pin = std::get_if<Pin>(&record.value().record.fact)) pins[pin->save].insert(pin->pin);
    if (const auto* unpin = std::get_if<Unpin>(&record.value().record.fact))
      pins[unpin->save].erase(unpin->pin);
    if (const auto* commit = std::get_if<Commit>(&record.value().record.fact)) committed.insert(commit->save);
    if (const auto* summary = std::get_if<Summary>(&record.value().record.fact))
      if (encode_fold(history).value().summary != *summary)
        return fail(fmt::format("slot {} names another fold than the records come to", slot));
    if (const auto applied = history.apply(record.value().record, record.value().digest); !applied.ok())
      return fail(applied.error().what());
  }
  auto read = looking.run(ReadJournal(History(fold_every), ReadJournal::Purpose::look));
  if (!read.ok()) return fail(read.error().what());
  if (read.value().history.next_slot() != history.next_slot()) return fail("the journal has a hole");
  if (history.genesis() &&
      encode_fold(read.value().history).value().bytes != encode_fold(history).value().bytes)
    return fail("a start knows something else than the records say");
  if (!history.folds().empty() && !is_a_fold_damaged_ && !is_damage_allowed) {
    const FoldRef& newest = history.folds().back();
    const auto fold = looking.get(fold_key(newest));
    if (!fold || !check_fold(*fold, newest.summary).ok())
      return fail(fmt::format("slot {} names a fold that is not there, or not whole", newest.slot));
  }
  for (const Checkpoint& c : history.checkpoints()) {
    if (!c.is_good() || half_removed_.contains(c.commit.save)) continue;
    auto found = looking.run(ReadSave(c.commit, ReadSave::Depth::everything));
    if (!found.ok()) return fail(found.error().what());
    if (!found.value().damage.empty() && !is_damage_allowed)
      return fail(fmt::format("{} is committed but {} is {}", c.commit.save.name(),
                              found.value().damage.front().object, found.value().damage.front().what));
  }
  for (const SaveId& save : acknowledged_)
    if (!committed.contains(save))
      return fail(fmt::format("{} was acknowledged but is not in the journal", save.name()));
}

}  // namespace unbroken::toy
