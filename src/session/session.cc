#include "unbroken/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/shown.h"
#include "base/text.h"
#include "base/utf8.h"
#include "os/stop_signal.h"
#include "session/environment.h"
#include "session/redirect.h"
#include "session/settings.h"
#include "snapshot/tensor_view.h"
#include "state/compare.h"
#include "state/names.h"
#include "state/tree.h"
#include "unbroken/exit_code.h"

namespace unbroken {

namespace {

void say(std::string_view line) {
  fmt::print(stderr, "unbroken: {}\n", printable_lines(line));
}

std::string fresh_start(const Opened& opened, const std::string& path) {
  if (opened.attempt <= 1) return fmt::format("fresh start: no run in {}", path);
  if (!opened.history.has_commits())
    return fmt::format("no checkpoint was ever committed by the earlier attempts: starting from step 0 in {}",
                       path);
  return fmt::format("fresh start: no checkpoint is left in {} (attempt {})", path, opened.attempt);
}

}  // namespace

/// The attached tensors, as the engine's loader and as what is saved.
struct Session::Impl final : Loader {
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Engine> engine;  // ends before the runtime
  std::set<std::string, std::less<>> names;
  StateView live;
  Dict roots;
  StopSignal stop;
  std::uint64_t completed = 0;
  bool has_saved_first = false, is_over = false;
  bool raises_on_save_error = false;
  std::shared_ptr<Saving> last;

  Result<> check(const SavedState& saved) override {
    std::vector<TensorSpec> there, here;
    for (const IndexedTensor& t : saved.index.tensors) there.push_back({t.name, t.dtype, t.shape});
    for (const TensorView& t : live.tensors) here.push_back({t.name, t.dtype, t.shape});
    const Mismatch mismatch = compare_states({there, {}}, {here, {}});
    if (mismatch.is_empty()) return Done{};
    return Error(Code::mismatch, fmt::format("checkpoint {} does not fit what is attached:\n{}",
                                             saved.commit.save.name(), mismatch.text()));
  }

  Result<std::vector<TensorTarget>> targets(const SavedState& saved) override {
    std::map<std::string_view, std::uint64_t> bytes;
    for (const IndexedTensor& t : saved.index.tensors) bytes[t.name] = t.bytes;
    std::vector<TensorTarget> out;
    for (const TensorView& t : live.tensors)
      out.push_back({t.name, {static_cast<std::byte*>(t.data), bytes[t.name]}});
    return out;
  }

  Deadline by() const { return runtime->seams().within(kCallLimit); }

  void show_messages() const {
    const bool goes_on = !is_over && !raises_on_save_error && !stop.is_raised();
    for (const std::string& line : engine->status().take_messages(goes_on)) say(line);
  }

  Result<> save_now(SaveWish wish) {
    UNBROKEN_TRY(last, engine->save(completed, live, wish, by()));
    has_saved_first = true;
    return Done{};
  }

  Result<> wait_for_last() {
    UNBROKEN_DO(last->wait(Saving::Stage::durable, by()));
    const auto error = last->error();
    // One that was committed stands, unless it is known to be damaged.
    if (error && (!last->has_reached(Saving::Stage::durable) || error->code() == Code::corrupt))
      return *error;
    return Done{};
  }

  /// A save that fell due. What the caller cannot mend fails the save, not the training.
  Result<> save_due(const Metrics& metrics) {
    auto saved = save_now({.metrics = metrics});
    const bool is_callers = saved.is(Code::fenced) || saved.is(Code::bad_argument);
    if (is_callers || raises_on_save_error) return saved;
    return Done{};
  }

  /// The state after the last step, on storage.
  Result<> save_and_wait(const Metrics& metrics, std::vector<std::string> tags = {}) {
    UNBROKEN_DO(save_now({.metrics = metrics, .tags = std::move(tags), .is_waited_for = true}));
    return wait_for_last();
  }

  /// Somebody asked for the end: what the process leaves with says whether this very step was saved.
  Error stopped(const Metrics& metrics) {
    const auto saved = save_and_wait(metrics);
    is_over = true;
    const ExitCode code = saved.ok() ? ExitCode::interrupted : ExitCode::interrupted_unsaved;
    const auto closed = engine->close(by(), static_cast<int>(code));
    show_messages();
    if (!closed.ok()) say(fmt::format("warning: close: {}", closed.error().what()));
    if (saved.is(Code::fenced)) return saved.error();  // it is over, but nobody resumes from here
    if (closed.is(Code::journal_unreadable))
      return Error(Code::unsaved, fmt::format("asked to stop: {}", closed.error().what()));
    if (saved.ok()) return Error(Code::stopped, fmt::format("asked to stop: saved as {}", last->name()));
    return Error(Code::unsaved, fmt::format("asked to stop: the last save failed: {}", saved.error().what()));
  }

  /// Somebody asked for the end where the state at hand is what is durable.
  Error stopped_as_it_is() {
    is_over = true;
    const auto newest = engine->status().newest();
    return Error(Code::stopped, fmt::format("asked to stop: {} stands and nothing is lost",
                                            newest ? newest->name() : "no checkpoint, as before,"));
  }

  void say_where_from() const {
    const Opened& opened = engine->opened();
    for (const FellBack& fallen : opened.fell_back)
      say(fmt::format("warning: checkpoint {} is damaged ({}: {}) and was put aside", fallen.save.name(),
                      fallen.object, fallen.what));
    for (const std::string& note : opened.notes) say(note);
    for (const std::string& note : runtime->notes()) say(note);
    if (!opened.resume) {
      say(fresh_start(opened, runtime->path()));
      return;
    }
    const double age_s =
        static_cast<double>(runtime->seams().clock.wall_unix_ms() - opened.resumed_at_unix_ms) / 1e3;
    say(fmt::format("resumed {} as attempt {} (saved {} ago, survives: {})", opened.resume->name(),
                    opened.attempt, format_duration(std::max(0.0, age_s)), runtime->survives()));
  }
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::open(std::string_view directory, RunOptions options) {
  const OsProcess process;
  UNBROKEN_DO(use_environment(process));
  UNBROKEN_TRY(EngineOptions engine, engine_options(process, options));
  auto impl = std::make_unique<Impl>();
  UNBROKEN_TRY(impl->runtime, Runtime::open(redirected(process, directory), runtime_options(options)));
  add_runtime(engine, *impl->runtime);
  impl->raises_on_save_error = options.raises_on_save_error;
  impl->engine = std::make_unique<Engine>(impl->runtime->seams(), std::move(engine));
  return Session(std::move(impl));
}

Result<> Session::attach(std::string_view name, std::vector<TensorView> tensors) {
  Impl& me = *impl_;
  if (me.engine->is_open())
    return Error(Code::bad_argument,
                 fmt::format("attach: \"{}\" comes after restore(), so it would not be restored", name));
  if (me.names.contains(name))
    return Error(Code::bad_argument, fmt::format("attach: \"{}\" is attached already", name));
  Dict inside;
  for (TensorView& tensor : tensors) {
    UNBROKEN_DO(check_view(tensor));
    if (!is_contiguous(tensor))
      return Error(Code::bad_argument,
                   fmt::format("{}.{}: has to be contiguous to be restored in place", name, tensor.name));
    Node key{tensor.name};
    tensor.name = join_name(segment_of(name), segment_of(tensor.name));
    UNBROKEN_DO(check_name(tensor.name));
    inside.items.emplace_back(std::move(key), Node{TensorRef{tensor.name, true}});
  }
  me.names.emplace(name);
  me.live.tensors.insert(me.live.tensors.end(), std::make_move_iterator(tensors.begin()),
                         std::make_move_iterator(tensors.end()));
  me.roots.items.emplace_back(Node{std::string(name)}, Node{std::move(inside)});
  me.live.tree = Node{me.roots};
  return Done{};
}

Result<std::uint64_t> Session::restore() {
  if (impl_->engine->is_open()) return Error(Code::bad_argument, "restore: it was called before");
  if (impl_->stop.is_raised()) return impl_->stopped_as_it_is();
  impl_->runtime->begin_load();
  UNBROKEN_DO(impl_->engine->restore(*impl_, impl_->by()));
  impl_->say_where_from();
  const auto& resume = impl_->engine->opened().resume;
  impl_->completed = resume ? resume->step : 0;
  if (impl_->stop.is_raised()) {
    const auto closed = impl_->engine->close(impl_->by(), static_cast<int>(ExitCode::interrupted));
    if (closed.is(Code::fenced)) return closed.error();
    return impl_->stopped_as_it_is();
  }
  return impl_->completed;
}

Result<> Session::step(std::uint64_t completed, const std::vector<std::pair<std::string, double>>& metrics) {
  Impl& me = *impl_;
  if (!me.engine->is_open()) return Error(Code::bad_argument, "step: call restore() first");
  if (completed <= me.completed)
    return Error(Code::bad_argument, fmt::format("step {} after step {}", completed, me.completed));
  for (const auto& [name, value] : metrics)
    if (name == "step" || name == "attempt")
      return Error(Code::bad_argument,
                   fmt::format("step: a metric cannot be called {}: each line of metrics has one", name));
  me.completed = completed;
  me.runtime->end_load();
  UNBROKEN_DO(me.engine->tap(completed, metrics, me.live.tensors, {}));
  UNBROKEN_DO(me.engine->log(completed, metrics));
  UNBROKEN_DO(me.engine->boundary(completed));
  if (me.stop.is_raised()) return me.stopped(metrics);
  if (!me.has_saved_first || me.engine->is_best(metrics) || me.engine->is_due(completed))
    UNBROKEN_DO(me.save_due(metrics));
  me.show_messages();
  return Done{};
}

Result<std::string> Session::save(std::string_view tag) {
  if (!impl_->engine->is_open()) return Error(Code::bad_argument, "save: call restore() first");
  if (impl_->completed == 0)
    return Error(Code::bad_argument, "save: no step is completed yet, so there is no name for its state");
  if (!tag.empty()) UNBROKEN_DO(check_tag_name(tag));
  UNBROKEN_DO(
      impl_->save_and_wait({}, tag.empty() ? std::vector<std::string>() : std::vector{std::string(tag)}));
  return impl_->last->name();
}

Result<> Session::close() {
  Impl& me = *impl_;
  if (!me.engine->is_open() || std::exchange(me.is_over, true)) return Done{};
  // A failed save still ends the attempt: what was committed before stands.
  const auto durable = me.has_saved_first ? me.save_and_wait({}) : Result<>(Done{});
  me.runtime->end_load();
  std::optional<int> code;
  if (durable.ok()) code = static_cast<int>(me.stop.is_raised() ? ExitCode::interrupted : ExitCode::finished);
  auto closed = me.engine->close(me.by(), code);
  me.show_messages();
  if (!durable.ok()) return durable;
  if (closed.ok() && me.stop.is_raised()) return me.stopped_as_it_is();
  return closed;
}

std::optional<std::string> Session::newest() const {
  const auto newest = impl_->engine->status().newest();
  return newest ? std::optional(newest->name()) : std::nullopt;
}

std::uint64_t Session::steps_of(std::uint64_t steps) const {
  return std::min(steps, steps_cap(impl_->runtime->seams().process).value_or(steps));
}

int exit_with(const Error& error) {
  if (error.code() == Code::stopped || error.code() == Code::unsaved) {
    say(error.what());
    return static_cast<int>(error.code() == Code::stopped ? ExitCode::interrupted
                                                          : ExitCode::interrupted_unsaved);
  }
  fmt::print(stderr, "error: {}{}{}\n", shown(error),
             error.next_command().empty() ? "" : "; next: ", error.next_command());
  return static_cast<int>(kind_of(error.code()).exit_code);
}

}  // namespace unbroken
