#include "snapshot/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace unbroken {

/// One that is large enough already, else the first free one.
std::size_t Arena::choose(std::uint64_t bytes) const {
  std::size_t chosen = slots_.size();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].is_used) continue;
    if (chosen == slots_.size() ||
        (slots_[chosen].memory.size() < bytes && slots_[i].memory.size() > slots_[chosen].memory.size()))
      chosen = i;
  }
  return chosen;
}

std::uint64_t Arena::used_bytes() const {
  std::uint64_t sum = 0;
  for (const Slot& slot : slots_)
    if (slot.is_used) sum += slot.bytes();
  return sum;
}

std::uint64_t Arena::left_bytes() const {
  if (!limits_.left) return std::numeric_limits<std::uint64_t>::max();
  std::uint64_t left = limits_.left();
  for (const Slot& slot : slots_)
    if (!slot.is_used) left += slot.bytes();
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
  if (slots_[chosen].memory.size() < bytes) {
    if (const std::string why = hindrance(bytes); !why.empty()) {
      if (used_bytes() > 0) return std::shared_ptr<MutableBytes>();
      return Error(Code::unavailable, fmt::format("a snapshot takes {}, {}", format_bytes(bytes), why));
    }
    UNBROKEN_DO(map(slots_[chosen], bytes, lock));
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
    return Error(Code::unavailable, fmt::format("a window takes {}", format_bytes(limits_.window_bytes_min)));
  UNBROKEN_DO(map(slots_[chosen], bytes, lock));
  slots_[chosen].window_bytes = window;
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
  slot.memory = Pages::make(bytes);
  slot.is_used = static_cast<bool>(slot.memory);
  if (slot.memory) return Done{};
  return Error(Code::unavailable, fmt::format("no memory for a snapshot of {}", format_bytes(bytes)));
}

std::shared_ptr<MutableBytes> Arena::hand_out(std::size_t slot, std::uint64_t bytes) {
  slots_[slot].is_used = true;
  auto* view = new MutableBytes(slots_[slot].memory.data(), bytes);
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
                         [&](const Slot& one) { return one.memory.data() == memory.data(); });
  }();  // it is in use, so that nobody else touches it
  if (!slot.prepared) slot.prepared = prepare({slot.memory.data(), slot.memory.size()});
}

void Arena::release(std::size_t slot) {
  const std::lock_guard lock(mutex_);
  if (slots_[slot].window_bytes > 0) slots_[slot] = {};
  slots_[slot].is_used = false;
}

bool Arena::has_room(std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const std::size_t chosen = choose(bytes);
  return chosen != slots_.size() &&
         (slots_[chosen].memory.size() >= bytes || used_bytes() == 0 || hindrance(bytes).empty());
}

std::uint64_t Arena::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const Slot& slot : slots_) sum += slot.bytes();
  return sum;
}

}  // namespace unbroken
