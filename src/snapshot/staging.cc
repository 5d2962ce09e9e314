#include "snapshot/staging.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"
#include "format/shard.h"
#include "snapshot/tensor_view.h"
#include "world/parallel.h"

namespace unbroken {

namespace {

constexpr std::size_t kNamesSaid = 3;

Index index_of(const StateView& state, const ShardPlan& plan, const std::vector<Xxh128>& digests) {
  Index index;
  index.data_offset = plan.data_offset;
  index.file_bytes = plan.file_bytes;
  index.tensors.reserve(state.tensors.size());
  for (const std::uint32_t t : plan.order) {
    const TensorView& view = state.tensors[t];
    index.tensors.push_back(
        {view.name, view.dtype, view.shape, plan.offsets[t], plan.bytes[t], digests[t], std::nullopt});
  }
  index.aliases = state.aliases;
  std::sort(index.aliases.begin(), index.aliases.end(),
            [](const Alias& a, const Alias& b) { return a.name < b.name; });
  index.tree = state.tree;
  return index;
}

/// Of what is read here; takes from `later` what cannot be copied later.
Result<> check_views(StateView& state) {
  std::vector<bool> is_arriving(state.tensors.size());
  for (const std::uint32_t t : state.arriving) is_arriving[t] = true;
  for (std::size_t t = 0; t < state.tensors.size(); ++t)
    if (!is_arriving[t]) UNBROKEN_DO(check_view(state.tensors[t]));
  std::erase_if(state.later,
                [&](std::uint32_t t) { return !is_arriving[t] && !is_contiguous(state.tensors[t]); });
  return Done{};
}

Error could_not_copy() {
  return {Code::bug, "a snapshot could not be copied"};
}

}  // namespace

std::string changed_text(const std::vector<std::string>& names) {
  const std::span said = std::span(names).first(std::min(names.size(), kNamesSaid));
  const std::string more =
      names.size() > said.size() ? fmt::format(" and {} more", names.size() - said.size()) : "";
  return fmt::format(
      "{}{} changed between a step and the optimizer's next one: copied before the step returns from now on",
      fmt::join(said, ", "), more);
}

Staging::Staging(StateView state, std::shared_ptr<const ShardPlan> plan, Space space, Executor& executor,
                 CopyShared copy_shared)
    : state_(std::move(state)),
      plan_(std::move(plan)),
      slot_(std::move(space.slot)),
      streamed_because_(std::move(space.streamed_because)),
      executor_(executor),
      window_(space.window_bytes == 0 ? nullptr
                                      : std::make_unique<Window>(*slot_, space.window_bytes, executor)),
      filling_(state_, *plan_, *slot_, window_.get(), std::move(copy_shared), executor),
      units_(filling_.units()),
      taken_(units_.size()) {
  for (const std::uint32_t t : state_.later) later_bytes_ += plan_->bytes[t];
  for (const Unit& unit : units_) at_once_ += unit.is_later ? 0 : 1;
}

std::uint64_t image_bytes_at_most(const std::vector<TensorView>& tensors) {
  std::uint64_t bytes = kPageBytes;
  for (const TensorView& view : tensors) {
    const auto size = byte_size(view.dtype, view.shape);
    bytes += size.ok() ? size.value() : 0;  // what has none is refused by begin()
    bytes += 256 + 6 * view.name.size();  // in the header, where each byte of a name may be written "\\u00ff"
  }
  return bytes;
}

Result<std::shared_ptr<Staging>> Staging::begin(StateView state, Arena& arena, Executor& executor,
                                                CopyShared copy_shared, const Proof& proof, LastPlan* last) {
  UNBROKEN_DO(check_views(state));
  LastPlan none;
  UNBROKEN_TRY(auto plan, (last != nullptr ? last : &none)->plan(state.tensors));
  UNBROKEN_TRY(Space space, make_space(state, plan->file_bytes, arena));
  if (!space.slot) return Error(Code::unavailable, "there is no room for a snapshot beside those in use");
  if (space.window_bytes > 0) state.later.clear();

  std::shared_ptr<Staging> staging(
      new Staging(std::move(state), std::move(plan), std::move(space), executor, std::move(copy_shared)));
  UNBROKEN_DO(staging->send(arena));
  UNBROKEN_DO(staging->filling_.mark(proof, executor));
  const std::size_t looks = staging->state_.later.empty() ? 0 : staging->filling_.mark_count() + 1;
  staging->is_proved_whole_ = proof.every == 1;
  staging->is_looked_at_ = std::vector<std::atomic<bool>>(looks);
  return staging;
}

Result<Staging::Space> Staging::make_space(const StateView& state, std::uint64_t bytes, Arena& arena) {
  auto whole = arena.acquire(bytes);
  if (whole.ok()) return Space{std::move(whole).value()};
  if (!state.arriving.empty()) return std::move(whole).error();
  auto windowed = arena.acquire_windowed(bytes);
  if (!windowed.ok()) return std::move(whole).error();
  Arena::Windowed& space = windowed.value();
  return Space{std::move(space.memory), space.window_bytes,
               fmt::format("{}: {} are missing, and it goes through a window of {}", whole.error().what(),
                           format_bytes(space.missing_bytes), format_bytes(space.window_bytes))};
}

Result<> Staging::send(Arena& arena) {
  const std::vector<Arrivals::Place> places = filling_.places();
  if (places.empty()) return Done{};
  sent_ = places.size();
  arena.prepare(*slot_, [&](MutableBytes memory) { return state_.arrivals->prepare(memory); });
  return state_.arrivals->begin(places);
}

Staging::~Staging() {
  try {
    static_cast<void>(await(sent_).ok());
  } catch (const std::exception&) {
    // Whoever cannot say whether it still writes there has lost the device.
  }
}

Result<> Staging::await(std::size_t arrivals) {
  if (arrived_.load() >= arrivals) return Done{};
  UNBROKEN_TRY(const std::size_t arrived, state_.arrivals->wait(arrivals));
  if (arrived < arrivals) return Error(Code::bug, "what an accelerator copies was not all begun");
  std::size_t before = arrived_.load();
  while (before < arrived && !arrived_.compare_exchange_weak(before, arrived)) {
  }
  return Done{};
}

void Staging::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  has_failed_.store(true);
  if (window_) window_->close();
}

void Staging::written(std::uint64_t begin, std::uint64_t end) {
  if (!window_->give_back(begin, end))
    fail(Error(Code::unavailable, "memory that was written cannot be given back to the system"));
}

void Staging::give_up(Error why) {
  if (window_ && !are_filled()) fail(std::move(why));
}

void Staging::copy_at_once() {
  if (window_) {
    for (std::size_t i = 0; i < units_.size(); ++i) fill_once(i);
    return;
  }
  static_cast<void>(parallel_for(executor_, Lane::compute, units_.size(), [&](std::size_t i) -> Result<> {
                      if (!units_[i].is_later) fill_once(i);
                      return Done{};
                    }).ok());
  executor_.join([this] { return filled_at_once_.load() == at_once_; });
}

void Staging::fill_once(std::size_t unit) {
  if (taken_[unit].exchange(true)) return;
  try {
    const Result<> arrived = await(units_[unit].arrivals);
    if (!arrived.ok())
      fail(arrived.error());
    else if (!filling_.fill(units_[unit]))
      fail(Error(Code::stopped, "it was not written any more"));
  } catch (const std::exception&) {
    fail(could_not_copy());  // whoever waits for the unit must not wait for ever
  }
  if (!units_[unit].is_later) filled_at_once_.fetch_add(1);
  filled_.fetch_add(1);
  executor_.notify();
}

/// A tensor that is written while it is copied shows it in pieces that were copied before: in what they hold
/// now. One that is written and written back shows it in what was copied meanwhile.
void Staging::look_once(std::size_t mark) {
  if (is_looked_at_[mark].exchange(true)) return;
  try {
    if (mark < filling_.mark_count()) {
      if (!filling_.is_unwritten(mark)) filling_.note_written(mark);
    } else if (state_.written) {
      for (const std::uint32_t tensor : state_.written()) filling_.note_changed(tensor);
    }
  } catch (const std::exception&) {
    fail(could_not_copy());
  }
  if (looked_.fetch_add(1) + 1 == is_looked_at_.size()) executor_.notify();
}

Result<> Staging::check_filled() const {
  const std::lock_guard lock(mutex_);
  if (error_) return *error_;
  return Done{};
}

void Staging::copy() {
  const auto each = [&](std::size_t count, auto&& once) {
    static_cast<void>(parallel_for(executor_, Lane::compute, count, [&](std::size_t i) -> Result<> {
                        once(i);
                        return Done{};
                      }).ok());
  };
  if (is_copied()) return;
  if (window_)  // whoever takes the snapshot copies it, or does not come to it any more
    return executor_.join([this] { return are_filled() || has_failed_.load(); });
  each(units_.size(), [&](std::size_t i) {
    if (units_[i].arrivals == 0) fill_once(i);  // what arrives may be waited for
  });
  each(units_.size(), [&](std::size_t i) { fill_once(i); });
  executor_.join([this] { return are_filled(); });
  each(is_looked_at_.size(), [&](std::size_t i) { look_once(i); });
  executor_.join([this] { return is_copied(); });
}

std::vector<std::string> Staging::look_again() {
  std::vector<std::atomic<bool>> is_written(filling_.mark_count());
  static_cast<void>(parallel_for(executor_, Lane::compute, is_written.size(), [&](std::size_t i) -> Result<> {
                      is_written[i].store(!filling_.is_unwritten(i));
                      return Done{};
                    }).ok());
  std::set<std::string> names;
  for (std::size_t i = 0; i < is_written.size(); ++i)
    if (is_written[i].load()) names.insert(filling_.name_of(i));
  return {names.begin(), names.end()};
}

Result<Snapshot> Staging::finish() {
  copy();
  UNBROKEN_DO(check_filled());
  changed_ = filling_.changed();
  if (!changed_.empty()) return Error(Code::unavailable, changed_text(changed_));
  UNBROKEN_DO(filling_.hash_rest(executor_));
  Snapshot snapshot;
  snapshot.index = index_of(state_, *plan_, filling_.digests());
  snapshot.chunks = std::move(filling_.chunks());
  snapshot.is_finite = filling_.is_finite();
  snapshot.state_bytes = std::accumulate(plan_->bytes.begin(), plan_->bytes.end(), std::uint64_t{0});
  snapshot.image = BufferRef(slot_, *slot_);
  return snapshot;
}

}  // namespace unbroken
