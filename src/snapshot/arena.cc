#include "snapshot/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace unbroken {

/// A free slot that is large enough already, else the first free one, else none.
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

Result<std::shared_ptr<MutableBytes>> Arena::acquire(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  const std::size_t chosen = choose(bytes);
  if (chosen == slots_.size()) return std::shared_ptr<MutableBytes>();
  Slot& slot = slots_[chosen];
  slot.is_used = true;
  if (slot.memory.size() < bytes) {
    auto prepared = std::exchange(slot.prepared, nullptr);
    lock.unlock();
    prepared.reset();  // which may need a lock that somebody holds who wants ours
    lock.lock();
    slot.memory = {};  // the old one first, so that both never stand side by side
    slot.memory = Pages::make(bytes);
    slot.is_used = static_cast<bool>(slot.memory);
    if (!slot.memory)
      return Error(Code::unavailable, fmt::format("no memory for a snapshot of {}", format_bytes(bytes)));
  }
  auto* view = new MutableBytes(slot.memory.data(), bytes);
  return std::shared_ptr<MutableBytes>(view, [arena = shared_from_this(), chosen](MutableBytes* mine) {
    delete mine;
    arena->release(chosen);
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
  slots_[slot].is_used = false;
}

bool Arena::has_free_slot() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.is_used; });
}

std::uint64_t Arena::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const Slot& slot : slots_) sum += slot.memory.size();
  return sum;
}

}  // namespace unbroken
