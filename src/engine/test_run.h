#pragma once
// For the tests of this module: one run directory on a simulated disk, and the lives of its run, one process
// each, on the engine's real code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/point.h"
#include "engine/engine.h"
#include "filestore/leftovers.h"
#include "format/keys.h"
#include "journal/slots.h"
#include "sim/sim_world.h"
#include "unbroken/exit_code.h"

namespace unbroken {

/// Content in which no two blocks are alike.
inline std::string bytes_of(std::size_t count) {
  std::string out(count, '\0');
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<char>((i * 2654435761U) >> 11);
  return out;
}

/// A state whose content is known from the step alone.
class TestModel final : public Loader {
 public:
  explicit TestModel(std::size_t size = 300) : weight_(size) { put(0); }
  void put(std::uint64_t step) {
    step_ = step;
    for (std::size_t i = 0; i < weight_.size(); ++i) weight_[i] = step * 1'000'003 + i;
  }
  bool is_of(std::uint64_t step) const {
    for (std::size_t i = 0; i < weight_.size(); ++i)
      if (weight_[i] != step * 1'000'003 + i) return false;
    return step_ == step;
  }
  /// From now on a parameter is finite, or is not.
  void be_finite(bool is_finite) { scale_ = is_finite ? 1 : std::numeric_limits<double>::infinity(); }
  StateView view() {
    StateView state;
    state.tensors = {contiguous_view("model.weight", DType::u64, {weight_.size()}, weight_.data()),
                     contiguous_view("step", DType::u64, {}, &step_),
                     contiguous_view("model.scale", DType::f64, {}, &scale_)};
    state.parameters = {2};
    if (is_copied_later) state.later = {0};
    Dict roots;
    for (const TensorView& t : state.tensors)
      roots.items.emplace_back(Node{t.name}, Node{TensorRef{t.name, true}});
    state.tree = Node{std::move(roots)};
    return state;
  }
  Result<> check(const SavedState&) override { return refusal ? Result<>(*refusal) : Result<>(Done{}); }
  Result<std::vector<TensorTarget>> targets(const SavedState&) override {
    return std::vector<TensorTarget>{
        {"model.weight", std::as_writable_bytes(std::span(weight_))},
        {"step", std::as_writable_bytes(std::span(&step_, 1))},
        {"model.scale", std::as_writable_bytes(std::span(&scale_, 1))},
    };
  }
  std::optional<Error> refusal;  ///< what check() answers
  bool is_copied_later = false;  ///< the weight

 private:
  std::uint64_t step_ = 0;
  double scale_ = 1;
  std::vector<std::uint64_t> weight_;
};

/// Passes everything on, until it refuses what is posted.
class TestExecutor final : public Executor {
 public:
  explicit TestExecutor(Executor& below) : below_(below) {}
  bool post(Lane lane, Task task) override {
    return !is_refusing && refused != lane && below_.post(lane, std::move(task));
  }
  void post_at(Instant when, Task task) override { below_.post_at(when, std::move(task)); }
  Result<> wait(const std::function<bool()>& is_done, const Deadline& by) override {
    return below_.wait(is_done, by);
  }
  void join(const std::function<bool()>& is_done) override { below_.join(is_done); }
  void notify() override { below_.notify(); }
  unsigned width(Lane lane) const override { return below_.width(lane); }
  bool is_refusing = false;
  std::optional<Lane> refused;

 private:
  Executor& below_;
};

inline EngineOptions test_options() {
  EngineOptions options;
  options.pace.schedule = Schedule::every_steps(1).value();
  options.open.policy = {.keep_last = 5, .verified_min = 2};
  options.open.probe = [](const Deadline&) -> Result<> { return Done{}; };
  return options;
}

inline EngineOptions keeping_one() {
  EngineOptions options = test_options();
  options.open.policy = {.keep_last = 1, .verified_min = 1};
  return options;
}

inline EngineOptions resuming(std::string_view at) {
  EngineOptions options = test_options();
  options.open.resume = parse_at(at).value();
  options.open.has_sign = options.open.resume.kind != At::Kind::newest;
  return options;
}

inline void pass(const Seams& seams, Duration time) {
  (void)seams.executor.wait([] { return false; }, seams.within(time));
}

/// One process of the run.
class TestLife {
 public:
  explicit TestLife(SimProcess& me, EngineOptions options = test_options())
      : process(me),
        executor(me.executor()),
        store(me.fs(), me.clock(), me.random("store"), {.path = "/runs/mlp"}),
        seams{me.clock(), me.random("engine"), executor, store, me} {
    options.open.sweep = [this](const Deadline& deadline) { sweep_leftovers(store, deadline); };
    engine = std::make_unique<Engine>(seams, std::move(options));
  }

  Deadline by() const { return seams.within(std::chrono::hours(24 * 365 * 40)); }
  Result<> restore() { return engine->restore(model, by()); }
  /// The step that it goes on from.
  std::uint64_t start() const { return engine->opened().resume ? engine->opened().resume->step : 0; }
  Result<> train(std::uint64_t step, const Metrics& metrics = {}) {
    model.put(step);
    UNBROKEN_DO(engine->log(step, metrics));
    return engine->boundary(step);
  }
  Result<std::shared_ptr<Saving>> save(std::uint64_t step, const SaveWish& wish = {}) {
    model.put(step);
    return engine->save(step, model.view(), wish, by());
  }
  /// Saves, and waits until it is durable and read back; the error of either.
  Result<> save_fully(std::uint64_t step, const SaveWish& wish = {}) {
    UNBROKEN_TRY(const std::shared_ptr<Saving> saving, save(step, wish));
    UNBROKEN_DO(saving->wait(Saving::Stage::verified, by()));
    if (auto error = saving->error()) return std::move(*error);
    return Done{};
  }
  Result<> close() { return engine->close(by()); }
  std::optional<std::string> newest() const {
    const auto save = engine->status().newest();
    return save ? std::optional(save->name()) : std::nullopt;
  }

  SimProcess& process;
  TestExecutor executor;
  FileStore store;
  Seams seams;
  TestModel model;
  std::unique_ptr<Engine> engine;
};

class TestRun {
 public:
  explicit TestRun(std::uint64_t seed = 1) : world({.seed = seed}) {}

  SimWorld world;

  SimProcess& begin(std::function<void(TestLife&)> body, EngineOptions options = test_options(),
                    SpawnOptions spawn = {}) {
    const std::string name = "life-" + std::to_string(++lives_);
    return world.spawn(
        name,
        [body = std::move(body), options = std::move(options)](SimProcess& me) {
          TestLife life(me, options);
          body(life);
        },
        std::move(spawn));
  }
  /// A whole life, alone.
  void live(std::function<void(TestLife&)> body, EngineOptions options = test_options(),
            SpawnOptions spawn = {}) {
    begin(std::move(body), std::move(options), std::move(spawn));
    const SimEnd end = world.run();
    EXPECT_EQ(end.failure, "");
    EXPECT_EQ(end.why, SimEnd::Why::all_over) << "it waits for what never comes";
  }
  /// A life that saves the steps from `first` to `last` and closes.
  void train(std::uint64_t first, std::uint64_t last, EngineOptions options = test_options()) {
    live(
        [&](TestLife& me) {
          const auto restored = me.restore();
          ASSERT_TRUE(restored.ok()) << restored.error().what();
          for (std::uint64_t step = first; step <= last; ++step) {
            const auto saved = me.save_fully(step);
            ASSERT_TRUE(saved.ok()) << saved.error().what();
          }
          ASSERT_TRUE(me.close().ok());
        },
        std::move(options));
  }
  /// What a start comes to: an error, or the step it goes on from.
  Result<std::uint64_t> start(EngineOptions options = test_options(), SpawnOptions spawn = {}) {
    Result<std::uint64_t> out = Error(Code::bug, "it did not run");
    live(
        [&](TestLife& me) {
          if (auto restored = me.restore(); !restored.ok()) {
            out = std::move(restored).error();
            return;
          }
          out = me.start();
          EXPECT_TRUE(me.model.is_of(me.start())) << "the state is not that of step " << me.start();
          fell_back = me.engine->opened().fell_back;
          notes = me.engine->opened().notes;
          EXPECT_TRUE(me.close().ok());
        },
        std::move(options), std::move(spawn));
    return out;
  }

  History journal() {
    History history;
    for (std::uint64_t slot = 0;; ++slot) {
      const auto bytes = world.disk().peek(slot_key(slot));
      if (!bytes) return history;
      const auto decoded = decode_record(*bytes);
      EXPECT_TRUE(decoded.ok()) << "slot " << slot;
      if (!decoded.ok()) return history;
      const auto applied = history.apply(decoded.value().record, decoded.value().digest);
      EXPECT_TRUE(applied.ok()) << applied.error().what();
    }
  }
  /// "GENESIS", "OPEN", ... in order.
  std::vector<std::string> facts() {
    std::vector<std::string> out;
    for (std::uint64_t slot = 0;; ++slot) {
      const auto bytes = world.disk().peek(slot_key(slot));
      if (!bytes) return out;
      out.emplace_back(type_of(decode_record(*bytes).value().record.fact));
    }
  }
  /// Names in a folder; nothing where there is none.
  std::vector<std::string> names(std::string_view folder) {
    auto listed = world.observer().list(folder);
    return listed.ok() ? std::move(listed).value() : std::vector<std::string>();
  }
  /// The object of this kind of a save.
  std::string object(std::string_view save, std::string_view start, std::string_view end) {
    std::string folder = save_prefix(SaveId::from_name(save).value());
    for (const std::string& name : names(folder.substr(0, folder.size() - 1)))
      if (name.starts_with(start) && name.ends_with(end)) return folder + name;
    ADD_FAILURE() << save << " has no " << start << "*" << end;
    return {};
  }
  std::string shard(std::string_view save) { return object(save, "shard-", ".safetensors"); }
  /// Damages the shard of a save at rest.
  void damage(std::string_view save) {
    EXPECT_TRUE(world.disk().flip_bit(shard(save), 5000)) << "no such byte";
  }

  std::vector<FellBack> fell_back;  ///< of the last start()
  std::vector<std::string> notes;   ///< of the last start()

 private:
  int lives_ = 0;
};

}  // namespace unbroken
