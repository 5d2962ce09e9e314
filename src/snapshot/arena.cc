#include "snapshot/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"

namespace unbroken {

namespace {

constexpr std::uint64_t kTouchBytes = Pages::kLargeBytes;  // at a time: the end of a run waits for one

Error no_memory(std::string why) {
  return Error(Code::unavailable, std::move(why)).next("free -h; cat /proc/self/cgroup");
}

/// Null where there is no memory.
std::shared_ptr<const Pages> make_pages(std::uint64_t bytes) {
  auto pages = std::make_shared<const Pages>(Pages::make(bytes));
  return *pages ? pages : nullptr;
}

}  // namespace

/// One that is large enough already, else the first free one.
std::size_t Arena::choose(std::uint64_t bytes) const {
  std::size_t chosen = slots_.size();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].is_used) continue;
    if (chosen == slots_.size() ||
        (slots_[chosen].bytes() < bytes && slots_[i].bytes() > slots_[chosen].bytes()))
      chosen = i;
  }
  return chosen;
}

std::uint64_t Arena::used_bytes() const {
  std::uint64_t sum = 0;
  for (const Slot& slot : slots_)
    if (slot.is_used) sum += slot.held_bytes;
  return sum;
}

std::uint64_t Arena::left_bytes() const {
  if (!limits_.left) return std::numeric_limits<std::uint64_t>::max();
  std::uint64_t left = limits_.left();
  for (const Slot& slot : slots_)
    if (!slot.is_used) left += slot.held_bytes;
  return left;
}

std::string Arena::hindrance(std::uint64_t bytes) const {
  const std::uint64_t used = used_bytes();
  if (bytes > limits_.bytes_max || used > limits_.bytes_max - bytes)
    return fmt::format("more than arena={}", format_bytes(limits_.bytes_max));
  const std::uint64_t left = left_bytes();
  return bytes <= left ? "" : fmt::format("more than the {} of memory that are left", format_bytes(left));
}

Result<std::shared_ptr<MutableBytes>> Arena::acquire(std::uint64_t bytes) {
  Lock lock(mutex_);
  const std::size_t chosen = choose(bytes);
  if (chosen == slots_.size()) return std::shared_ptr<MutableBytes>();
  if (slots_[chosen].held_bytes < bytes) {
    if (const std::string why = hindrance(bytes); !why.empty()) {
      if (used_bytes() > 0) return std::shared_ptr<MutableBytes>();
      return no_memory(fmt::format("a snapshot takes {}, {}", format_bytes(bytes), why));
    }
    if (slots_[chosen].bytes() < bytes) UNBROKEN_DO(map(slots_[chosen], bytes, lock));
    slots_[chosen].held_bytes = slots_[chosen].bytes();
  }
  return hand_out(chosen, bytes);
}

Result<Arena::Windowed> Arena::acquire_windowed(std::uint64_t bytes) {
  Lock lock(mutex_);
  const std::size_t chosen = choose(bytes);
  const std::uint64_t used = used_bytes();
  const std::uint64_t most = std::min(left_bytes(), limits_.bytes_max - std::min(used, limits_.bytes_max));
  const std::uint64_t window = std::min({most, bytes, limits_.window_bytes_max});
  if (chosen == slots_.size() || window < limits_.window_bytes_min)
    return no_memory(fmt::format("a window takes {}", format_bytes(limits_.window_bytes_min)));
  UNBROKEN_DO(map(slots_[chosen], bytes, lock));
  slots_[chosen].is_windowed = true;
  slots_[chosen].held_bytes = window;
  return Windowed{hand_out(chosen, bytes), window, bytes - std::min(bytes, most)};
}

Result<> Arena::map(Slot& slot, std::uint64_t bytes, Lock& lock) {
  std::vector<Slot> old;
  for (Slot& idle : slots_)
    if (!idle.is_used) old.push_back(std::exchange(idle, {}));
  slot.is_used = true;
  lock.unlock();  // what was prepared may need a lock that somebody holds who wants ours
  old.clear();
  lock.lock();
  slot.memory = make_pages(bytes);
  slot.is_used = slot.memory != nullptr;
  if (slot.memory) return Done{};
  return no_memory(fmt::format("no memory for a snapshot of {}", format_bytes(bytes)));
}

std::shared_ptr<MutableBytes> Arena::hand_out(std::size_t slot, std::uint64_t bytes) {
  slots_[slot].is_used = true;
  auto* view = new MutableBytes(slots_[slot].memory->data(), bytes);
  return std::shared_ptr<MutableBytes>(view, [arena = shared_from_this(), slot](MutableBytes* mine) {
    delete mine;
    arena->release(slot);
  });
}

void Arena::prepare(const MutableBytes& memory,
                    const std::function<std::shared_ptr<void>(MutableBytes)>& prepare) {
  Slot& slot = [&]() -> Slot& {
    const std::lock_guard lock(mutex_);
    return *std::find_if(slots_.begin(), slots_.end(),
                         [&](const Slot& one) { return one.memory && one.memory->data() == memory.data(); });
  }();  // it is in use, so that nobody else touches it
  if (!slot.prepared) slot.prepared = prepare({slot.memory->data(), slot.memory->size()});
}

bool Arena::reserve(std::uint64_t bytes, std::uint64_t needed_besides) {
  const std::lock_guard lock(mutex_);
  const bool is_first =
      std::none_of(slots_.begin(), slots_.end(), [](const Slot& one) { return one.memory; });
  if (!is_first || !hindrance(bytes).empty()) return false;
  const std::uint64_t left = left_bytes();
  if (left / 2 < bytes || left - 2 * bytes < needed_besides) return false;
  slots_.front().memory = make_pages(bytes);
  return slots_.front().memory != nullptr;
}

Arena::Slot* Arena::reserved() {
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [](const Slot& one) {
    return !one.is_used && one.held_bytes < one.bytes();
  });
  return slot == slots_.end() ? nullptr : &*slot;
}

bool Arena::touch_some() {
  const std::uint64_t left = limits_.left ? limits_.left() : std::numeric_limits<std::uint64_t>::max();
  std::shared_ptr<const Pages> memory;
  MutableBytes piece;
  {
    const std::lock_guard lock(mutex_);
    const Slot* const slot = reserved();
    if (slot == nullptr) return false;
    const std::uint64_t size = slot->bytes(), missing = size - slot->held_bytes;
    if (left < missing || left - missing < size) return false;
    memory = slot->memory;
    piece = {memory->data() + slot->held_bytes, std::min(missing, kTouchBytes)};
  }
  if (!Pages::touch(piece)) return false;
  const std::lock_guard lock(mutex_);
  Slot* const slot = reserved();
  if (slot == nullptr || slot->memory != memory) return false;
  slot->held_bytes += piece.size();
  return slot->held_bytes < slot->bytes();
}

void Arena::release(std::size_t slot) {
  const std::lock_guard lock(mutex_);
  if (slots_[slot].is_windowed) slots_[slot] = {};
  slots_[slot].is_used = false;
}

bool Arena::has_room(std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const std::size_t chosen = choose(bytes);
  return chosen != slots_.size() &&
         (slots_[chosen].held_bytes >= bytes || used_bytes() == 0 || hindrance(bytes).empty());
}

std::uint64_t Arena::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const Slot& slot : slots_) sum += slot.held_bytes;
  return sum;
}

}  // namespace unbroken
