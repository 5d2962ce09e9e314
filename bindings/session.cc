// One life of a run, as Python drives it.
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <exception>

#include "bindings.h"
#include "engine/write/write_object.h"
#include "os/fork_guard.h"
#include "session/environment.h"
#include "snapshot/snapshot.h"

namespace unbroken::bindings {

namespace {

Saving::Stage stage_of(const std::string& name) {
  if (name == "staged") return Saving::Stage::staged;
  if (name == "durable") return Saving::Stage::durable;
  if (name == "verified") return Saving::Stage::verified;
  raise(Error(Code::bad_argument, "no stage \"" + name + "\""));
}

/// Calls Python back for what only it knows. The first exception is kept and comes out of restore()
/// unchanged.
class PyLoader final : public Loader {
 public:
  explicit PyLoader(nb::object loader) : loader_(std::move(loader)) {}
  Result<> check(const SavedState& saved) override {
    return guarded<Done>([&] {
      loader_.attr("check")(SavedState(saved));
      return Done{};
    });
  }
  Result<std::vector<TensorTarget>> targets(const SavedState& saved) override {
    return guarded<std::vector<TensorTarget>>([&] {
      return targets_of(nb::cast<std::vector<TargetTuple>>(loader_.attr("targets")(SavedState(saved))));
    });
  }
  std::exception_ptr exception() const { return exception_; }

 private:
  template <class T, class Call>
  Result<T> guarded(Call call) {
    const nb::gil_scoped_acquire acquired;
    try {
      return call();
    } catch (...) {
      exception_ = std::current_exception();
      return Error(Code::stopped, "the caller refused");
    }
  }

  nb::object loader_;
  std::exception_ptr exception_;
};

/// An object whose last reference may go on a thread of ours.
std::shared_ptr<nb::object> shared_object(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* mine) {
            if (!Py_IsInitialized()) return;
            const nb::gil_scoped_acquire acquired;
            delete mine;
          }};
}

/// A function of Python without arguments that gives indices, as one for our threads.
std::function<std::vector<std::uint32_t>()> asked(nb::object function) {
  return [shared = shared_object(std::move(function))]() -> std::vector<std::uint32_t> {
    if (!Py_IsInitialized()) return {};
    const nb::gil_scoped_acquire acquired;
    return nb::cast<std::vector<std::uint32_t>>((*shared)());
  };
}

/// What copies from an accelerator, in Python.
class PyArrivals final : public Arrivals {
 public:
  explicit PyArrivals(nb::object device) : device_(shared_object(std::move(device))) {}
  std::shared_ptr<void> prepare(MutableBytes memory) override {
    auto prepared = tried<std::shared_ptr<void>>([&]() -> std::shared_ptr<void> {
      return shared_object(device_->attr("prepare")(address_of(memory), memory.size()));
    });
    return prepared.ok() ? std::move(prepared).value() : nullptr;
  }
  Result<> begin(std::span<const Place> places) override {
    return tried<Done>([&] {
      nb::list all;
      for (const Place& place : places)
        all.append(nb::make_tuple(place.tensor, address_of(place.into), place.into.size(), place.is_later));
      device_->attr("begin")(all);
      return Done{};
    });
  }
  Result<std::size_t> wait(std::size_t count) override {
    return tried<std::size_t>([&] { return nb::cast<std::size_t>(device_->attr("wait")(count)); });
  }

 private:
  static std::uintptr_t address_of(MutableBytes memory) {
    return reinterpret_cast<std::uintptr_t>(memory.data());
  }
  template <class T, class Call>
  static Result<T> tried(Call call) {
    if (!Py_IsInitialized()) return Error(Code::unavailable, "the process is ending");
    const nb::gil_scoped_acquire acquired;
    try {
      return call();
    } catch (nb::python_error& e) {
      if (e.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();  // it is heard a little later
      return Error(Code::unavailable,
                   std::string("copying from the accelerator: ") + nb::str(e.value()).c_str());
    }
  }

  std::shared_ptr<nb::object> device_;
};

class PySaving {
 public:
  PySaving(std::shared_ptr<Saving> saving, const Seams& seams) : saving_(std::move(saving)), seams_(seams) {}
  std::string name() const { return saving_->name(); }
  std::uint64_t step() const { return saving_->step(); }
  bool has(Saving::Stage stage) const { return saving_->has_reached(stage); }
  nb::object error() const {
    const auto error = saving_->error();
    return error ? tuple_of(*error) : nb::none();
  }
  bool wait(const std::string& stage, std::optional<double> timeout_s) const {
    const Saving::Stage wanted = stage_of(stage);
    const nb::gil_scoped_release released;
    return saving_->wait(wanted, seams_.within(limit_of(timeout_s))).ok();
  }
  void on_change(nb::object tell) const {
    const auto shared = shared_object(std::move(tell));
    const nb::gil_scoped_release released;
    saving_->on_change([shared] {
      if (!Py_IsInitialized()) return;
      const nb::gil_scoped_acquire acquired;
      try {
        (*shared)();
      } catch (nb::python_error& e) {
        e.discard_as_unraisable("unbroken: a save's listener");
      }
    });
  }

 private:
  std::shared_ptr<Saving> saving_;
  Seams seams_;
};

class PySession {
 public:
  PySession(const std::string& path, const nb::dict& options) {
    RunOptions run;
    run.every = nb::cast<std::string>(options["every"]);
    for (const auto& [name, into] :
         {std::pair("mtti", &run.mtti), std::pair("rpo", &run.rpo), std::pair("every_min", &run.every_min),
          std::pair("every_max", &run.every_max), std::pair("max_wait", &run.max_wait),
          std::pair("arena", &run.arena), std::pair("max_bandwidth", &run.max_bandwidth)})
      if (options.contains(name) && !options[name].is_none()) *into = nb::cast<std::string>(options[name]);
    run.keep_last = nb::cast<std::uint32_t>(options["keep_last"]);
    run.keep_every = nb::cast<std::uint64_t>(options["keep_every"]);
    if (nb::object best = options["keep_best"]; !best.is_none()) {
      const auto [metric, mode] = nb::cast<std::pair<std::string, std::string>>(best);
      run.keep_best = KeepBest{metric, mode};
    }
    if (options.contains("busy")) run.busy = nb::cast<std::string>(options["busy"]);
    run.resume = nb::cast<std::string>(options["resume"]);
    run.is_fresh_allowed = nb::cast<bool>(options["fresh"]);
    run.is_takeover = nb::cast<bool>(options["takeover"]);
    run.raises_on_save_error = nb::cast<bool>(options["raises_on_save_error"]);
    const auto versions = nb::cast<std::map<std::string, std::string>>(options["versions"]);
    if (nb::object group = options["group"]; !group.is_none()) run.group = nb::cast<std::string>(group);
    auto opened = [&]() -> Result<> {
      const nb::gil_scoped_release released;
      const OsProcess process;
      UNBROKEN_DO(use_environment(process));
      UNBROKEN_TRY(EngineOptions engine, engine_options(process, run));
      UNBROKEN_TRY(runtime_, Runtime::open(path, runtime_options(run)));
      engine.provenance = versions;
      add_runtime(engine, *runtime_);
      engine_ = std::make_unique<Engine>(runtime_->seams(), std::move(engine));
      return Done{};
    }();
    unwrap(std::move(opened));
  }
  ~PySession() {
    if (guard_.is_child()) {
      // Threads and locks belong to the parent: let go of everything unused.
      (void)engine_.release();
      (void)runtime_.release();
      return;
    }
    const nb::gil_scoped_release released;
    engine_.reset();
    runtime_.reset();
  }

  nb::dict restore(nb::object loader) {
    PyLoader py(std::move(loader));
    auto done = [&] {
      const nb::gil_scoped_release released;
      runtime_->begin_load();
      return engine_->restore(py, by());
    }();
    if (py.exception()) std::rethrow_exception(py.exception());
    unwrap(std::move(done));
    const Opened& opened = engine_->opened();
    nb::dict report;
    report["fresh"] = !opened.resume.has_value();
    report["step"] = opened.resume ? opened.resume->step : 0;
    report["attempt"] = opened.attempt;
    report["name"] = opened.resume ? nb::cast(opened.resume->name()) : nb::none();
    report["is_never_committed"] = opened.attempt > 1 && !opened.history.has_commits();
    report["run"] = opened.run;
    report["survives"] = std::string(runtime_->survives());
    const double age_s =
        static_cast<double>(runtime_->seams().clock.wall_unix_ms() - opened.resumed_at_unix_ms) / 1e3;
    report["resumed_age_s"] = opened.resume ? nb::cast(std::max(0.0, age_s)) : nb::none();
    report["fell_back"] = to_python(opened.fell_back);
    std::vector<std::string> notes = runtime_->notes();
    notes.insert(notes.end(), opened.notes.begin(), opened.notes.end());
    report["notes"] = notes;
    return report;
  }

  std::string path() const { return runtime_->path(); }
  std::uint32_t attempt() const { return engine_->is_open() ? engine_->opened().attempt : 0; }
  std::optional<std::string> newest() const {
    const auto newest = engine_->status().newest();
    return newest ? std::optional(newest->name()) : std::nullopt;
  }

  void describe(const std::string& key, const std::string& value) { engine_->describe(key, value); }
  void begin_save() { engine_->begin_save(); }
  void reserve(std::uint64_t bytes, std::uint64_t needed_besides) {
    const nb::gil_scoped_release released;
    if (auto touch_some = engine_->reserve(bytes, needed_besides)) runtime_->do_idly(std::move(touch_some));
  }
  nb::dict stats() const {
    const EngineStats stats = engine_->stats();
    nb::dict out;
    out["arena_bytes"] = stats.arena_bytes;
    out["saves"] = stats.saves.committed;
    out["saves_skipped"] = stats.saves.skipped;
    out["saves_failed"] = stats.saves.failed;
    out["wait_s"] = stats.saves.exposed_s;
    out["engine"] = std::string(runtime_->write_engine());
    out["depth"] = runtime_->seams().executor.width(Lane::io);
    out["block_bytes"] = kBlockBytes;
    out["step_s"] = stats.step_s;
    out["interval_s"] = stats.interval_s;
    out["decide_ns"] = stats.decide_ns;
    out["demoted"] = stats.distrusted;
    out["last"] = nb::none();
    if (!stats.saves.last) return out;
    const Status::Cost& cost = stats.saves.last_cost;
    nb::dict last;
    last["step"] = stats.saves.last->step;
    last["wait_s"] = cost.exposed_s;
    last["staged_s"] = cost.exposed_s + cost.staged_s;
    last["durable_s"] = cost.exposed_s + cost.durable_s;
    last["verified_s"] = nb::none();
    if (const auto since = stats.saves.last_verified_s) last["verified_s"] = cost.exposed_s + *since;
    last["bytes"] = cost.bytes;
    last["eager_bytes"] = cost.bytes - cost.later_bytes;
    last["lazy_bytes"] = cost.later_bytes;
    last["cpu_s"] = cost.cpu_s();
    last["streamed"] = cost.is_streamed;
    out["last"] = last;
    return out;
  }
  bool is_best(const Metrics& metrics) { return engine_->is_best(metrics); }
  bool is_due(std::uint64_t step) {
    const nb::gil_scoped_release released;  // it may wait
    return engine_->is_due(step);
  }
  void boundary(std::uint64_t step) {
    runtime_->end_load();
    auto done = [&] {
      const nb::gil_scoped_release released;
      return engine_->boundary(step);
    }();
    unwrap(std::move(done));
  }
  void log(std::uint64_t step, const Metrics& metrics) { unwrap(engine_->log(step, metrics)); }
  bool wants_tap() const { return engine_->has_tap(); }
  void tap(std::uint64_t step, const Metrics& metrics, const std::vector<TensorTuple>& tensors,
           const TapValues& values, const TapValues& not_attached) {
    const std::vector<TensorView> views = views_of(tensors);
    auto done = [&] {
      const nb::gil_scoped_release released;
      return engine_->tap(step, metrics, views, values, not_attached);
    }();
    unwrap(std::move(done));
  }
  PySaving save(std::uint64_t step, const KnownState* known, const std::vector<PlaceTuple>& places,
                const std::vector<TensorTuple>& tensors, const std::vector<AliasTuple>& aliases,
                const std::string& tree, const std::vector<std::uint32_t>& parameters, const Metrics& metrics,
                const std::vector<std::uint32_t>& later, nb::object written, bool is_proved_whole,
                const std::vector<std::string>& tags, const std::vector<std::uint32_t>& arriving,
                nb::object device, bool is_waited_for) {
    for (const std::string& tag : tags) unwrap(check_tag_name(tag));
    StateView state = [&] {
      try {
        StateView all = state_of(known, places, tensors, aliases, tree, parameters);
        all.later = later;
        all.arriving = arriving;
        if (!device.is_none()) all.arrivals = std::make_shared<PyArrivals>(std::move(device));
        if (!written.is_none()) all.written = asked(std::move(written));
        return all;
      } catch (const nb::python_error& e) {
        save_failed(step, e.what());
        throw;
      }
    }();
    auto saved = [&] {
      const nb::gil_scoped_release released;
      return engine_->save(step, std::move(state),
                           {.metrics = metrics,
                            .tags = tags,
                            .is_waited_for = is_waited_for,
                            .is_proved_whole = is_proved_whole},
                           by());
    }();
    return PySaving(unwrap(std::move(saved)), runtime_->seams());
  }
  void fence() {
    if (guard_.is_child()) return;
    const nb::gil_scoped_release released;
    engine_->fence();
  }
  void save_failed(std::uint64_t step, const std::string& why) {
    engine_->save_failed(step, Error(Code::bad_argument, why));
  }
  std::vector<std::string> digests(const std::vector<TensorTuple>& tensors) {
    const std::vector<TensorView> views = views_of(tensors);
    auto found = [&] {
      const nb::gil_scoped_release released;
      return digest_views(views, engine_->executor());
    }();
    std::vector<std::string> out;
    for (const Xxh128& digest : unwrap(std::move(found))) out.push_back(digest.hex());
    return out;
  }
  nb::dict health() const {
    const Health health = engine_->status().health();
    nb::dict out;
    out["state"] = health.state == Health::State::green    ? "green"
                   : health.state == Health::State::yellow ? "yellow"
                                                           : "red";
    out["why"] = health.why;
    out["saves_failed"] = health.saves_failed;
    out["saves_skipped"] = health.saves_skipped;
    return out;
  }
  std::vector<std::string> take_messages(bool goes_on) { return engine_->status().take_messages(goes_on); }
  bool drain(std::optional<double> timeout_s) {
    const nb::gil_scoped_release released;
    return engine_->drain(runtime_->seams().within(limit_of(timeout_s))).ok();
  }
  void close(std::optional<int> code) {
    runtime_->end_load();
    if (guard_.is_child()) return;
    auto done = [&] {
      const nb::gil_scoped_release released;
      return engine_->close(by(), code);
    }();
    unwrap(std::move(done));
  }

 private:
  Deadline by() const { return runtime_->seams().within(kCallLimit); }

  ForkGuard guard_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Engine> engine_;  // ends before the runtime
};

}  // namespace

void bind_session(nb::module_& m) {
  nb::class_<PySaving>(m, "Saving")
      .def_prop_ro("name", &PySaving::name)
      .def_prop_ro("step", &PySaving::step)
      .def("staged", [](const PySaving& s) { return s.has(Saving::Stage::staged); })
      .def("durable", [](const PySaving& s) { return s.has(Saving::Stage::durable); })
      .def("verified", [](const PySaving& s) { return s.has(Saving::Stage::verified); })
      .def("error", &PySaving::error)
      .def("wait", &PySaving::wait, nb::arg("stage"), nb::arg("timeout_s").none())
      .def("on_change", &PySaving::on_change, nb::arg("tell"));
  nb::class_<PySession>(m, "Session")
      .def(nb::init<const std::string&, const nb::dict&>(), nb::arg("path"), nb::arg("options"))
      .def("restore", &PySession::restore, nb::arg("loader"))
      .def_prop_ro("path", &PySession::path)
      .def_prop_ro("attempt", &PySession::attempt)
      .def_prop_ro("newest", &PySession::newest)
      .def("describe", &PySession::describe, nb::arg("key"), nb::arg("value"))
      .def("begin_save", &PySession::begin_save)
      .def("reserve", &PySession::reserve, nb::arg("nbytes"), nb::arg("needed_besides"))
      .def("stats", &PySession::stats)
      .def("is_due", &PySession::is_due, nb::arg("step"))
      .def("boundary", &PySession::boundary, nb::arg("step"))
      .def("log", &PySession::log, nb::arg("step"), nb::arg("metrics"))
      .def("wants_tap", &PySession::wants_tap)
      .def("tap", &PySession::tap, nb::arg("step"), nb::arg("metrics"), nb::arg("tensors"), nb::arg("values"),
           nb::arg("not_attached"))
      .def("save", &PySession::save, nb::arg("step"), nb::arg("known").none(), nb::arg("places"),
           nb::arg("tensors"), nb::arg("aliases"), nb::arg("tree"), nb::arg("parameters"), nb::arg("metrics"),
           nb::arg("later"), nb::arg("written").none(), nb::arg("is_proved_whole"), nb::arg("tags"),
           nb::arg("arriving"), nb::arg("device").none(), nb::arg("is_waited_for"))
      .def("fence", &PySession::fence)
      .def("save_failed", &PySession::save_failed, nb::arg("step"), nb::arg("why"))
      .def("is_best", &PySession::is_best, nb::arg("metrics"))
      .def("digests", &PySession::digests, nb::arg("tensors"))
      .def("health", &PySession::health)
      .def("take_messages", &PySession::take_messages, nb::arg("goes_on"))
      .def("drain", &PySession::drain, nb::arg("timeout_s").none())
      .def("close", &PySession::close, nb::arg("code").none() = nb::none());
}

}  // namespace unbroken::bindings
